// fed.Codecs: the C library's bytes, residuals and errors, on direct buffers.
// SPDX-License-Identifier: Apache-2.0
import fed.Codecs;
import fed.FedException;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Random;

final class CodecsTest {
    private static final String[] SPECS = {"float32", "sbc:p=0.01", "3lc:s=1.75", "3lc:s=1+runs", "twobit:t=0.5", "int8", "topk:p=0.05",
        "eden", "eden:p=0.008", "eden:p=0.008,scale=tensor"};
    private static final int N = 10000;

    private static FloatBuffer gradient(int n, int seed) {
        FloatBuffer x = Codecs.buffer(n);
        Random random = new Random(seed);
        for (int i = 0; i < n; i++) {
            x.put(i, (float) random.nextGaussian());
        }
        return x;
    }

    private static float[] floats(FloatBuffer x) {
        float[] values = new float[x.remaining()];
        x.duplicate().get(values);
        return values;
    }

    public void all_codecs_are_there() throws Exception {
        Check.that(Codecs.names().size() >= 14, "less than 14 codecs: " + Codecs.names());
        String listed = Check.command("fedcodec", "list");
        for (String name : Codecs.names()) {
            Check.says(listed, name);
        }
    }

    public void the_bytes_are_those_of_the_program() throws Exception {
        File folder = Files.createTempDirectory("fed").toFile();
        ByteBuffer bytes = ByteBuffer.allocate(N * 4).order(ByteOrder.nativeOrder());
        bytes.asFloatBuffer().put(gradient(N, 1));
        Files.write(new File(folder, "x").toPath(), bytes.array());
        for (String spec : SPECS) {
            Check.command("fedcodec", "encode", "--codec", spec, "--small", "0", folder + "/x", folder + "/m");
            byte[] wanted = Files.readAllBytes(new File(folder, "m").toPath());
            Check.that(Arrays.equals(Codecs.encode(spec, gradient(N, 1), null), wanted), spec);
        }
        Check.remove(folder);
    }

    public void the_residual_is_what_the_message_leaves_out() {
        for (String spec : new String[] {"sbc:p=0.01", "topk:p=0.05", "3lc:s=1"}) {
            FloatBuffer x = gradient(N, 1), residual = gradient(N, 2), y = Codecs.buffer(N);
            float[] before = floats(residual);
            byte[] message = Codecs.encode(spec, x, residual);
            Check.equal(Codecs.count(message), (long) N);
            Codecs.decode(message, y);
            for (int i = 0; i < N; i++) {
                Check.equal(residual.get(i), before[i] + x.get(i) - y.get(i));
            }
        }
    }

    public void a_call_works_between_position_and_limit() {
        FloatBuffer x = gradient(N, 1), y = Codecs.buffer(N);
        x.position(100).limit(300);
        y.position(700).limit(900);
        byte[] message = Codecs.encode("float32", x, null);
        Codecs.decode(message, y);
        Codecs.decodeAdd(message, 0.5f, y);
        Check.equal(x.position(), 100);
        Check.equal(y.remaining(), 200);
        y.clear();
        for (int i = 0; i < N; i++) {
            float from = i >= 700 && i < 900 ? x.get(i - 600 < 300 ? i - 600 : 0) : 0;
            Check.equal(y.get(i), from == 0 ? 0f : from + 0.5f * from);
        }
    }

    public void wrong_arguments_are_named() {
        FloatBuffer x = gradient(10, 1);
        Check.fails(FedException.class, "nosuch", () -> Codecs.encode("nosuch", x, null));
        Check.fails(FedException.class, "0 values", () -> Codecs.encode("sbc", Codecs.buffer(0), null));
        Check.fails(IllegalArgumentException.class, "x must be a direct buffer", () -> Codecs.encode("sbc", FloatBuffer.allocate(5), null));
        Check.fails(IllegalArgumentException.class, "byte order",
                () -> Codecs.encode("sbc", ByteBuffer.allocateDirect(8).order(swapped()).asFloatBuffer(), null));
        Check.fails(IllegalArgumentException.class, "residual has 9 values", () -> Codecs.encode("sbc", x, Codecs.buffer(9)));
        Check.fails(IllegalArgumentException.class, "read-only", () -> Codecs.encode("sbc", x, Codecs.buffer(10).asReadOnlyBuffer()));
        Check.fails(IllegalArgumentException.class, "character 0", () -> Codecs.encode("s\0bc", x, null));
        Check.fails(NullPointerException.class, "spec", () -> Codecs.encode(null, x, null));
        Check.fails(NullPointerException.class, "message", () -> Codecs.decode(null, x));
        Check.fails(NullPointerException.class, "message", () -> Codecs.count(null));
        x.put(3, Float.NaN);
        FedException refused = Check.fails(FedException.class, "NaN", () -> Codecs.encode("sbc", x, null));
        Check.equal(refused.status(), FedException.ENONFINITE);
    }

    private static ByteOrder swapped() {
        return ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN ? ByteOrder.LITTLE_ENDIAN : ByteOrder.BIG_ENDIAN;
    }

    public void a_damaged_message_leaves_the_values_alone() {
        byte[] message = Codecs.encode("3lc", gradient(100, 1), null);
        FloatBuffer y = gradient(100, 5);
        float[] before = floats(y);
        for (byte[] wrong : new byte[][] {{}, Arrays.copyOf(message, message.length - 1), Arrays.copyOf(message, message.length + 1)}) {
            Check.fails(FedException.class, "", () -> Codecs.count(wrong));
            Check.fails(FedException.class, "", () -> Codecs.decode(wrong, y));
            Check.fails(FedException.class, "", () -> Codecs.decodeAdd(wrong, 1, y));
        }
        Check.fails(FedException.class, "", () -> Codecs.decode(message, Codecs.buffer(99)));
        Check.that(Arrays.equals(floats(y), before), "y has changed");
    }

    public void threads_encode_side_by_side() throws Exception {
        byte[] wanted = Codecs.encode("sbc:p=0.01", gradient(100000, 1), null);
        Check.Code code = () -> Check.that(Arrays.equals(Codecs.encode("sbc:p=0.01", gradient(100000, 1), null), wanted), "a thread has encoded other bytes");
        Check.sideBySide(code, code, code, code);
    }
}
