// The codecs: float arrays to few bytes and back.
// SPDX-License-Identifier: Apache-2.0
package fed;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * The codecs: float arrays to few bytes and back.
 *
 * <pre>
 * FloatBuffer residual = Codecs.buffer(n);          // zeros at first; keep it
 * byte[] message = Codecs.encode("sbc:p=0.01", gradient, residual);
 * FloatBuffer decoded = Codecs.buffer(n);
 * Codecs.decode(message, decoded);
 * </pre>
 *
 * <p>Buffers are direct and in this machine's byte order, as those of {@link #buffer} and {@link Model}; their values are
 * not copied. A call works on the values from a buffer's position to its limit, and moves neither. A message says which
 * codec made it; its bytes are those of the C library. All methods may be called from several threads at once.
 */
public final class Codecs {
    private Codecs() {}

    /** Make a buffer of n zeros that the codecs accept. */
    public static FloatBuffer buffer(int n) {
        return ByteBuffer.allocateDirect(Math.multiplyExact(n, Float.BYTES)).order(ByteOrder.nativeOrder()).asFloatBuffer();
    }

    /** The names of all codecs. */
    public static List<String> names() {
        List<String> names = new ArrayList<>();
        for (byte[] name = Native.codecName(0); name != null; name = Native.codecName(names.size())) {
            names.add(Native.text(name));
        }
        return names;
    }

    /**
     * Compress values.
     *
     * @param spec a codec with its parameters: "sbc:p=0.01", "3lc:s=1.75+runs", "float32"
     * @param x the values
     * @param residual a buffer of the same number of values, zeros at first. It is added to x, and
     * then holds what the message leaves out. null: what the message leaves out is lost
     * @throws FedException an unknown codec, no values, or a NaN or an infinity, which leaves the residual as it was
     */
    public static byte[] encode(String spec, FloatBuffer x, FloatBuffer residual) {
        check("x", x, false);
        if (residual != null) {
            check("residual", residual, true);
            if (residual.remaining() != x.remaining()) {
                throw new IllegalArgumentException("residual has " + residual.remaining() + " values, x has " + x.remaining());
            }
        }
        byte[] text = Native.bytes(Objects.requireNonNull(spec, "spec"));
        return Native.encode(text, x, x.position(), x.remaining(), residual, residual == null ? 0 : residual.position());
    }

    /** How many values a message has. A few bytes can stand for billions of zeros: check before you allocate. */
    public static long count(byte[] message) {
        return Native.count(Objects.requireNonNull(message, "message"));
    }

    /** Set y to the values of a message. FedException: the message is damaged, or has another
     * number of values; y is unchanged. */
    public static void decode(byte[] message, FloatBuffer y) {
        read(message, false, 0, y);
    }

    /** Add weight * the values of a message to y. Errors as for {@link #decode}. */
    public static void decodeAdd(byte[] message, float weight, FloatBuffer y) {
        read(message, true, weight, y);
    }

    private static void read(byte[] message, boolean add, float weight, FloatBuffer y) {
        check("y", y, true);
        Native.decode(Objects.requireNonNull(message, "message"), add, weight, y, y.position(), y.remaining());
    }

    private static void check(String what, FloatBuffer buffer, boolean writable) {
        if (!buffer.isDirect() || buffer.order() != ByteOrder.nativeOrder()) {
            throw new IllegalArgumentException(what + " must be a direct buffer in this machine's byte order, as Codecs.buffer() makes it");
        }
        if (writable && buffer.isReadOnly()) {
            throw new IllegalArgumentException(what + " is read-only");
        }
    }
}
