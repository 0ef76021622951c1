// What the tests share: assertions, and the programs of the build.
// SPDX-License-Identifier: Apache-2.0
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

final class Check {
    static final String ROOT = System.getProperty("fed.root"), BIN = System.getProperty("fed.bin");

    interface Code {
        void run() throws Exception;
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object found, Object wanted) {
        that(wanted.equals(found), "found " + found + ", wanted " + wanted);
    }

    static void says(String text, String words) {
        that(text != null && text.contains(words), "wanted \"" + words + "\" in: " + text);
    }

    /** The code must throw exactly this kind, with these words; returns what it threw. */
    static <T extends Throwable> T fails(Class<T> kind, String words, Code code) {
        try {
            code.run();
        } catch (Throwable thrown) {
            that(kind == thrown.getClass(), "wanted " + kind.getName() + ", got " + thrown);
            says(thrown.getMessage(), words);
            return kind.cast(thrown);
        }
        throw new AssertionError("nothing was thrown; wanted " + kind.getName() + ": " + words);
    }

    /** Run the codes side by side, and wait. If some fail, throws an Exception whose cause is the
     * first failure. */
    static void sideBySide(Code... codes) throws Exception {
        List<Thread> threads = new ArrayList<>();
        List<Throwable> thrown = new ArrayList<>();
        for (Code code : codes) {
            Thread thread = new Thread(() -> {
                try {
                    code.run();
                } catch (Throwable failure) {
                    synchronized (thrown) {
                        thrown.add(failure);
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (!thrown.isEmpty()) {
            throw new Exception("a thread failed", thrown.get(0));
        }
    }

    /** Run a program of the build, which must succeed, and return what it prints. */
    static String command(String program, String... words) throws Exception {
        List<String> line = new ArrayList<>(Arrays.asList(BIN + "/" + program));
        line.addAll(Arrays.asList(words));
        File said = File.createTempFile("fed", ".out");
        try {
            int status = new ProcessBuilder(line).redirectErrorStream(true).redirectOutput(said).start().waitFor();
            String text = new String(Files.readAllBytes(said.toPath()), StandardCharsets.UTF_8);
            that(status == 0, String.join(" ", line) + ": " + text);
            return text;
        } finally {
            that(said.delete(), "the temporary file can't be deleted");
        }
    }

    static void remove(File file) throws IOException {
        File[] inside = file.listFiles();
        for (File each : inside == null ? new File[0] : inside) {
            remove(each);
        }
        Files.deleteIfExists(file.toPath());
    }

    private Check() {}
}
