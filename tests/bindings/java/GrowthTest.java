// A thousand clients, one after the other, leave no memory and no file behind.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class GrowthTest {
    private static final int PARTS = 5, CLIENTS = 200; // clients of each part
    private static final long LIMIT_KIB = 200; // as much as a leak of 1 KiB a client

    // A leak takes memory in each part, compilation and garbage collection only in a few.
    public void a_thousand_clients_leave_nothing() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.device("d").open().close();
            openAndClose(home, 2 * CLIENTS); // let the Java machine and malloc take the memory that they need
            long files = openFiles();
            long[] grown = new long[PARTS];
            for (int part = 0; part < PARTS; part++) {
                long before = residentKib();
                openAndClose(home, CLIENTS);
                grown[part] = residentKib() - before;
            }
            Arrays.sort(grown);
            System.out.println("        each " + CLIENTS + " clients: " + Arrays.toString(grown) + " KiB more");
            Check.that(grown[PARTS / 2] < LIMIT_KIB, "the median of the parts is " + grown[PARTS / 2] + " KiB");
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
