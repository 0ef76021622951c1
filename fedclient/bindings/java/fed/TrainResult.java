// What a trainer returns.
// SPDX-License-Identifier: Apache-2.0
package fed;

public final class TrainResult {
    /** The loss of a trainer that has none: the device is left out of the round's mean loss. */
    public static final float NO_LOSS = -Float.MAX_VALUE;

    final int samples;
    final float loss;
    final int correct;

    /**
     * The result of a training without a loss.
     *
     * @param samples how many samples this device's data has, at least 1; the weight of its update
     */
    public TrainResult(int samples) {
        this(samples, NO_LOSS);
    }

    /**
     * The result of a training.
     *
     * @param samples how many samples this device's data has, at least 1; the weight of its update
     * @param loss the mean loss, or NO_LOSS
     */
    public TrainResult(int samples, float loss) {
        this(samples, loss, 0);
    }

    /**
     * The result of a measurement.
     *
     * @param samples how many samples were tested, at least 1
     * @param loss the mean loss, or NO_LOSS
     * @param correct how many of them had the right class
     */
    public TrainResult(int samples, float loss, int correct) {
        if (samples < 1 || correct < 0 || correct > samples) {
            throw new IllegalArgumentException("samples is " + samples + " and correct " + correct
                    + ": samples is at least 1, and correct is between 0 and samples");
        }
        this.samples = samples;
        this.loss = loss;
        this.correct = correct;
    }
}
