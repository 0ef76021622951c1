// A thousand clients, one after the other, leave no memory and no file behind.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class GrowthTest {
    private static final int TIMES = 1000;
    private static final long LIMIT_KIB = 4096; // as much as a leak of 4 KiB a client

    public void a_thousand_clients_leave_nothing() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.device("d").open().close();
            openAndClose(home, TIMES / 2); // let the Java machine and malloc take the memory that they need
            long before = residentKib(), files = openFiles();
            openAndClose(home, TIMES);
            long grown = residentKib() - before;
            System.out.println("        " + TIMES + " clients: " + grown + " KiB more");
            Check.that(grown < LIMIT_KIB, TIMES + " clients took " + grown + " KiB");
            Check.equal(openFiles(), files);
        }
    }

    private static void openAndClose(Coordinator home, int times) throws Exception {
        Client.Builder builder = new Client.Builder(home.url(), home.ca(), home.state("d")).name("d");
        for (int k = 0; k < times; k++) {
            try (Client client = builder.open()) {
                Check.that(client.enrolled(), "not enrolled");
            }
        }
        System.gc();
    }

    private static long residentKib() throws Exception {
        String status = new String(Files.readAllBytes(new File("/proc/self/status").toPath()), StandardCharsets.UTF_8);
        Matcher line = Pattern.compile("VmRSS:\\s+(\\d+) kB").matcher(status);
        Check.that(line.find(), "no VmRSS in " + status);
        return Long.parseLong(line.group(1));
    }

    private static long openFiles() {
        return new File("/proc/self/fd").list().length;
    }
}
