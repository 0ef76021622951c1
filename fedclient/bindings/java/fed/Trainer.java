// The app's own training, or measuring.
// SPDX-License-Identifier: Apache-2.0
package fed;

/** Trains a model on this device's data; for a client that evaluates, measures it. */
public interface Trainer {
    /**
     * Change the model's values in place, and return the number of samples and the loss.
     *
     * @param model its tensors, valid while this call runs
     * @param round what the task asks for, valid while this call runs
     * @throws Decline the task does not fit this device
     * @throws Exception anything else: nothing of this training is sent, and the caller of
     *     {@link Client#step} or {@link Client#run} gets the exception
     */
    TrainResult train(Model model, Round round) throws Exception;
}
