// A device whose process was killed goes on from its folder.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.TrainResult;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

final class KilledTest {
    private static final int ROUNDS = 4;

    public void a_device_killed_again_and_again_loses_nothing() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": " + ROUNDS + ", \"cohort\": 1");
            for (String where : new String[] {"training 1", "COUNTED 2", "training 3", "nowhere"}) {
                play(home, where);
            }
            home.isModel(ROUNDS, 2 * ROUNDS);
        }
    }

    /** Run a device in a process of its own, and kill it when it has printed the line `where`. */
    private static void play(Coordinator home, String where) throws Exception {
        String java = new File(System.getProperty("java.home"), "bin/java").getPath();
        Process device = new ProcessBuilder(java, "-Xcheck:jni", "-Djava.library.path=" + System.getProperty("java.library.path"), "-cp",
                System.getProperty("java.class.path"), "KilledTest", home.url(), home.ca().getPath(), home.state("d").getPath(), home.token(), where)
                .redirectError(new File(home.folder, "device.log")).start();
        String last = "";
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(device.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null && !line.equals(where); line = lines.readLine()) {
                last = line;
            }
            device.destroyForcibly(); // SIGKILL; to a process that has ended it does nothing
            Check.that(!where.equals("nowhere") || last.equals("end"), "the device ended with: " + last);
            device.waitFor();
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Client client = new Client.Builder(arguments[0], new File(arguments[1]), new File(arguments[2])).token(arguments[3]).open()) {
            client.run((model, round) -> {
                ClientTest.add(model.values("layer.weight"), 1);
                ClientTest.add(model.values("layer.bias"), 2);
                say("training " + round.number(), arguments[4]);
                return new TrainResult(1, 0);
            }, event -> say(event.outcome + " " + event.round, arguments[4]));
        }
        say("end", arguments[4]);
    }

    /** Print the place that this device has come to. If the device is to be killed at this place,
     * wait for the kill. */
    private static void say(String place, String where) {
        System.out.println(place);
        System.out.flush();
        if (place.equals(where)) {
            try {
                Thread.sleep(60000);
            } catch (InterruptedException end) {
                throw new AssertionError(end);
            }
        }
    }
}
