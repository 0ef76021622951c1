// Thrown by a trainer whose device can't do the task.
// SPDX-License-Identifier: Apache-2.0
package fed;

/**
 * Thrown by a trainer: the task does not fit this device. The operator reads the message, the
 * coordinator asks another device instead, and the client waits for another task.
 */
public final class Decline extends RuntimeException {
    private static final long serialVersionUID = 1;

    public Decline(String why) {
        super(why);
    }
}
