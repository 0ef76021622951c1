// The round of a trainer's callback.
// SPDX-License-Identifier: Apache-2.0
package fed;

/**
 * A round while its callback runs. Methods that ask the library ({@link #wanted}, {@link #leftMs})
 * are for the callback's own thread, and throw IllegalStateException elsewhere and later. The
 * task's texts and numbers can be read at any time.
 */
public final class Round {
    public interface Progress {
        void progress(Round round, int done, int total);
    }

    private final Client client;
    private final Thread thread = Thread.currentThread();
    private final String model, optimizer, app;
    private final long[] numbers;
    private final float learningRate;
    private long address; // of the library's round; 0: it is over
    private String reason = "";

    Round(Client client, long address, byte[][] texts, long[] numbers, float learningRate) {
        this.client = client;
        this.address = address;
        this.model = Native.text(texts[0]);
        this.optimizer = Native.text(texts[1]);
        this.app = Native.text(texts[2]);
        this.numbers = numbers;
        this.learningRate = learningRate;
    }

    void end() {
        address = 0;
    }

    private long open() {
        if (Thread.currentThread() != thread) {
            throw new IllegalStateException("ask this from the callback's own thread, which is " + thread.getName());
        }
        if (address == 0) {
            throw new IllegalStateException("this round's callback has returned");
        }
        return address;
    }

    /** The number of the round, from 1; 0 in an evaluation. */
    public int number() {
        return (int) numbers[0];
    }

    /** The model's version. */
    public int version() {
        return (int) numbers[1];
    }

    /** How many training steps the task asks for. */
    public int localSteps() {
        return (int) numbers[2];
    }

    /** How many samples a step takes. */
    public int batch() {
        return (int) numbers[3];
    }

    /** The seed of this task, 64 bits. */
    public long seed() {
        return numbers[4];
    }

    /** The task's number. */
    public long task() {
        return numbers[5];
    }

    /** Which of the client's slots the task has, from 0. */
    public int slot() {
        return (int) numbers[6];
    }

    /** Has this device trained none of the task's private layers yet? The model then has the task's
     * initial values there, which are 0 in a model without layers: the trainer may put its own in
     * their place. */
    public boolean ownIsNew() {
        return numbers[7] != 0;
    }

    /** Is the k-th tensor of the model in a private layer, which stays on this device? */
    public boolean isPrivate(int k) {
        return numbers[8 + k] != 0;
    }

    public float learningRate() {
        return learningRate;
    }

    /** The task's text of the model, such as "vector 61706". */
    public String model() {
        return model;
    }

    /** The task's optimizer, such as "sgd". */
    public String optimizer() {
        return optimizer;
    }

    /** The task's key "app": the application's own JSON object; "" without one. */
    public String app() {
        return app;
    }

    /** Milliseconds until the coordinator refuses this round's update; 0 if that time is over. An
     * evaluation has no deadline: the result is Long.MAX_VALUE. */
    public long leftMs() {
        long left = Native.roundLeft(open());
        return left == 0xffffffffL ? Long.MAX_VALUE : left;
    }

    /**
     * Does the coordinator still want the result? Call this after each training step; it costs
     * little. Once it has returned false, it always does, and {@link #reason} says why. The
     * trainer should then return soon: its training is kept for this device's next update, unless
     * the client was stopped. If the trainer throws instead, its training is dropped.
     */
    public boolean wanted() {
        byte[] why = Native.roundWanted(client.handle(), client, open());
        if (why != null) {
            reason = Native.text(why);
        }
        return why == null;
    }

    /** Why {@link #wanted} returned false; "" if it did not. */
    public String reason() {
        return reason;
    }

    /** Tell the client's Progress that {@code done} of {@code total} training steps are done. */
    public void progress(int done, int total) {
        client.tellProgress(this, done, total);
    }
}
