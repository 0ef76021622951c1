// What one step of a client did.
// SPDX-License-Identifier: Apache-2.0
package fed;

public final class Event {
    /** The order is that of the C library's fedclient_outcome. */
    public enum Outcome {
        /** There was nothing to do yet. */
        WAITED,
        /** The update was uploaded and counted. */
        COUNTED,
        /** The update was uploaded, but not counted. It goes with the next update. */
        REFUSED,
        /** A model was measured, and the result reported. */
        EVALUATED,
        /** The task is done. */
        FINISHED,
        /** The network, the coordinator or the training failed. */
        RETRY,
        /** The task does not fit this device. */
        DECLINED,
        /** The round ended during training. */
        LATE,
        /** The app's Eligibility refused to train now, or the device rests between two rounds ({@code apart}). */
        PAUSED
    }

    public final Outcome outcome;
    /** round 0: the step had no round. */
    public final int round, version;
    /** Take the next step after this time, in milliseconds. */
    public final long waitMs;
    /** NaN: the trainer had none. */
    public final float loss;
    /** Numbers of samples; set if a model was measured. correct -1: the trainer counts none. */
    public final int samples, correct;
    /** All tasks are finished, or with one slot the client's task. */
    public final boolean over;
    /** The reason of RETRY, DECLINED, LATE and PAUSED. */
    public final String reason;

    static final int NUMBERS = 8;

    Event(int[] numbers, String reason) {
        outcome = Outcome.values()[numbers[0]];
        round = numbers[1];
        version = numbers[2];
        waitMs = numbers[3] & 0xffffffffL;
        loss = Float.intBitsToFloat(numbers[4]);
        samples = numbers[5];
        correct = numbers[6];
        over = numbers[7] != 0;
        this.reason = reason;
    }

    @Override
    public String toString() {
        String text = outcome + " round " + round + " version " + version;
        return reason.isEmpty() ? text : text + ": " + reason;
    }
}
