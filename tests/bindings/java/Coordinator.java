// A real coordinator for a test: a directory of its own, served over TLS on loopback.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class Coordinator implements AutoCloseable {
    static final String MODEL = "tensors layer.weight 3x4 | layer.bias 5";

    final File folder = Files.createTempDirectory("fed").toFile();
    final String home = folder + "/home";
    private String front = "0", devices = "0"; // ports; a restart keeps them
    private Process server;

    Coordinator() throws Exception {
        Check.command("fedserver", "init", "--dir", home);
        start();
    }

    void start() throws Exception {
        server = new ProcessBuilder(Check.BIN + "/fedserver", "run", "--dir", home, "--front-port", front, "--devices-port", devices)
                .redirectError(new File(folder, "log")).start();
        String line = new BufferedReader(new InputStreamReader(server.getInputStream(), StandardCharsets.UTF_8)).readLine();
        Matcher ports = Pattern.compile(":(\\d+).*:(\\d+)").matcher(String.valueOf(line));
        Check.that(ports.find(), "the coordinator's first line does not name its ports: " + line);
        front = ports.group(1);
        devices = ports.group(2);
    }

    void kill() {
        server.destroyForcibly();
        while (server.isAlive()) {
            Thread.yield();
        }
    }

    @Override
    public void close() throws IOException {
        kill();
        Check.remove(folder);
    }

    /** Queue a task: keys of JSON beside the model, as "\"rounds\": 3". */
    void task(String keys) throws Exception {
        task(MODEL, keys);
    }

    void task(String model, String keys) throws Exception {
        queue(model, "\"codec_up\": \"float32\", \"codec_down\": \"float32\", \"device_share\": 1, " + keys);
    }

    /** Queue a private task without a helper, whose rounds have three devices. */
    void privateTask(String keys) throws Exception {
        queue(MODEL, "\"rounds\": 1, \"cohort\": 3, \"codec_up\": \"ring:b=5\", \"clip\": 1, " + keys);
    }

    private void queue(String model, String keys) throws Exception {
        File file = write("task.json", "{\"model\": \"" + model + "\", " + keys + "}");
        Check.command("fedserver", "task", "--dir", home, file.getPath());
    }

    /** Write a file of this text into the coordinator's folder. */
    File write(String name, String text) throws Exception {
        File file = new File(folder, name);
        Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
        return file;
    }

    String token(String... more) throws Exception {
        String[] words = {"token", "--dir", home};
        String[] all = new String[words.length + more.length];
        System.arraycopy(words, 0, all, 0, words.length);
        System.arraycopy(more, 0, all, words.length, more.length);
        return Check.command("fedserver", all).trim();
    }

    String url() {
        return "https://127.0.0.1:" + front;
    }

    File ca() {
        return new File(home, "ca.pem");
    }

    File state(String device) {
        return new File(folder, device);
    }

    Client.Builder device(String name) throws Exception {
        return fresh(name, token());
    }

    Client.Builder fresh(String name, String token) {
        return new Client.Builder(url(), ca(), state(name)).token(token);
    }

    /** Export the model as it is now into a file of safetensors, and return its values. */
    float[] model() throws Exception {
        File file = new File(folder, "last.safetensors");
        Check.command("fedserver", "export", "--dir", home, file.getPath());
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file.toPath())).order(ByteOrder.LITTLE_ENDIAN);
        bytes.position(8 + (int) bytes.getLong(0));
        FloatBuffer floats = bytes.slice().order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        float[] values = new float[floats.remaining()];
        floats.get(values);
        return values;
    }

    /** All values of layer.weight, and all of layer.bias, must be these to the bit. */
    void isModel(float weight, float bias) throws Exception {
        float[] values = model();
        Check.equal(values.length, 17);
        for (int i = 0; i < values.length; i++) {
            Check.equal(values[i], i < 12 ? weight : bias);
        }
    }
}
