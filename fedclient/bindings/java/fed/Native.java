// The functions of libfedjni.so.
// SPDX-License-Identifier: Apache-2.0
package fed;

import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The functions in C. Texts are passed as UTF-8 bytes, since JNI's own strings have another
 * encoding. A handle is the address of a client in C; Client makes sure that none is used after
 * close(). Functions that can fail throw FedException.
 */
final class Native {
    static {
        System.loadLibrary("fedjni");
    }

    private Native() {}

    static byte[] bytes(String text) {
        if (text == null) {
            return null;
        }
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("a text has a character 0, which the library can't take: " + text.replace('\0', '?'));
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? "" : new String(bytes, StandardCharsets.UTF_8);
    }

    /** texts: server, CA's PEM, folder of the state, name, software, computesOn, the helper's file; the last four may be null.
     * mostEpsilon 0: any. */
    static native long open(Client self, byte[][] texts, boolean evaluate, int slots, int leastDevices, float mostEpsilon,
                            boolean privateOnly, int logLevel);

    static native void close(long handle);

    static native void stop(long handle);

    static native void enrol(long handle, Client self, byte[] token);

    static native byte[] device(long handle);

    /** Fills in the numbers of Event. Returns the event's reason; null: none. Throws what a
     * callback has thrown. */
    static native byte[] step(long handle, Client self, int[] event);

    /** Takes part until the end; false: until stop(). Throws what a callback has thrown. */
    static native boolean run(long handle, Client self);

    static native long roundLeft(long round);

    /** Returns null if the round's result is wanted; otherwise why it is not. */
    static native byte[] roundWanted(long handle, Client self, long round);

    /** samples: 1 to 2^32 - 1. */
    static native void roundResult(long round, long samples, float loss, int correct);

    /** The k-th codec's name; null past the last. */
    static native byte[] codecName(int k);

    /** Encodes count values of x, from a position on. Both buffers must be direct; residual may be
     * null. */
    static native byte[] encode(byte[] spec, FloatBuffer x, int position, int count, FloatBuffer residual, int residualPosition);

    static native long count(byte[] message);

    /** add: y += weight * the values; otherwise y = the values. */
    static native void decode(byte[] message, boolean add, float weight, FloatBuffer y, int position, int count);
}
