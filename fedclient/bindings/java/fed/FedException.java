// A call of the library that failed: its status and its sentence.
// SPDX-License-Identifier: Apache-2.0
package fed;

/** A failed call of the library; the message says why. */
public final class FedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Statuses that a program may want to tell apart; fed/status.h has all of them. */
    public static final int EINVAL = 1, EFORMAT = 2, ENOSPC = 3, ENOMEM = 4, EIO = 5, ENOTFOUND = 6, EAUTH = 8, ETIMEOUT = 9,
            ENET = 10, ESTATE = 11, ENONFINITE = 12, ERANGE = 13, EBUSY = 15, ECANCELED = 16;

    private final int status;

    FedException(int status, String message) {
        super(message);
        this.status = status;
    }

    /** Called by the library, whose texts are UTF-8. */
    FedException(int status, byte[] message) {
        this(status, Native.text(message));
    }

    /** The number of the C library's fed_status, such as {@link #EAUTH}. */
    public int status() {
        return status;
    }
}
