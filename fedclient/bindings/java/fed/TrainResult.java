// What a trainer returns.
// SPDX-License-Identifier: Apache-2.0
package fed;

public final class TrainResult {
    /** The loss of a trainer that has none: the device is left out of the round's mean loss. */
    public static final float NO_LOSS = -Float.MAX_VALUE;

    /** The count of a trainer that has none: no accuracy is shown of its measurement. */
    public static final int NO_CORRECT = -1;

    private static final long SAMPLES_MOST = 0xffffffffL;

    final long samples;
    final float loss;
    final int correct;

    /**
     * The result of a training without a loss.
     *
     * @param samples how many samples this device's data has, 1 to 2^32 - 1; the weight of its update
     */
    public TrainResult(long samples) {
        this(samples, NO_LOSS);
    }

    /**
     * The result of a training, or of a measurement without an accuracy.
     *
     * @param samples how many samples this device's data has, 1 to 2^32 - 1; the weight of its update
     * @param loss the mean loss, or NO_LOSS. One that is NaN or infinite gives the slot back, and the
     *     operator reads so; after several in a row the task is declined
     */
    public TrainResult(long samples, float loss) {
        this(samples, loss, NO_CORRECT);
    }

    /**
     * The result of a measurement.
     *
     * @param samples how many samples were tested, 1 to 2^32 - 1
     * @param loss the mean loss, or NO_LOSS
     * @param correct how many of them had the right class, or NO_CORRECT
     */
    public TrainResult(long samples, float loss, int correct) {
        if (samples < 1 || samples > SAMPLES_MOST || correct < NO_CORRECT || correct > samples) {
            throw new IllegalArgumentException("samples is " + samples + " and correct " + correct
                    + ": samples is between 1 and 2^32 - 1, and correct between 0 and samples");
        }
        this.samples = samples;
        this.loss = loss;
        this.correct = correct;
    }
}
