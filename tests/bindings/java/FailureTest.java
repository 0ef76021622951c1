// The client throws, unchanged, what its callbacks have thrown. What the library refuses becomes an exception with a sentence.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.Decline;
import fed.Event;
import fed.FedException;
import fed.TrainResult;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;

final class FailureTest {
    public void what_a_trainer_throws_comes_out() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Throwable[] all = {new IOException("the card is gone"), new ArithmeticException("/ by zero"), new StackOverflowError("deep"),
                new OutOfMemoryError("full"), new InterruptedException("now")};
            for (Throwable each : all) {
                Throwable found = Check.fails(each.getClass(), each.getMessage(), () -> client.run((model, round) -> {
                    ClientTest.add(model.values(), 100);
                    throw FailureTest.<RuntimeException>unchecked(each);
                }));
                Check.that(found == each, "the client threw another object");
            }
            Check.fails(NullPointerException.class, "returned null", () -> client.run((model, round) -> null));
            Check.fails(IllegalArgumentException.class, "samples", () -> client.run((model, round) -> new TrainResult(0, 1)));
            Event event = client.step((model, round) -> new TrainResult(1, Float.NaN));
            Check.equal(event.outcome, Event.Outcome.RETRY);
            Check.says(event.reason, "loss");
            client.run(ClientTest.adder(1, 2)); // after all these failures the device still trains
            home.isModel(1, 2);
        }
    }

    /** Throw anything, as Kotlin may. */
    @SuppressWarnings("unchecked")
    private static <T extends Throwable> T unchecked(Throwable any) throws T {
        throw (T) any;
    }

    public void a_stack_that_overflows_for_real_comes_out() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            try {
                client.run((model, round) -> new TrainResult(depth(0), 0));
                throw new AssertionError("nothing was thrown");
            } catch (StackOverflowError wanted) {
                client.run(ClientTest.adder(1, 2));
            }
            home.isModel(1, 2);
        }
    }

    private static int depth(int k) {
        return depth(k + 1) + 1;
    }

    public void what_other_callbacks_throw_comes_out() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 2");
            try (Client client = home.device("eligible").eligible(() -> {
                throw new ArithmeticException("eligible");
            }).open()) {
                Check.fails(ArithmeticException.class, "eligible", () -> client.step(ClientTest.adder(1, 1)));
            }
            try (Client client = home.device("progress").progress((round, done, total) -> {
                throw new ArithmeticException("progress");
            }).open()) {
                Check.fails(ArithmeticException.class, "progress", () -> client.step((model, round) -> {
                    round.progress(1, 2);
                    return null;
                }));
            }
            int[] asked = {0};
            try (Client client = home.device("within").eligible(() -> {
                if (++asked[0] > 1) {
                    throw new ArithmeticException("within");
                }
                return null;
            }).open()) {
                Check.fails(ArithmeticException.class, "within", () -> client.step((model, round) -> {
                    while (round.wanted()) {
                        Thread.sleep(1);
                    }
                    return new TrainResult(1, 0);
                }));
            }
        }
    }

    public void a_task_is_declined_with_the_reason() throws Exception {
        String why = "no camera \ud83d\udcf7 here";
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Event event = client.step((model, round) -> {
                throw new Decline(why);
            });
            Check.equal(event.outcome, Event.Outcome.DECLINED);
            Check.says(event.reason, why);
        }
    }

    public void a_device_pauses_while_the_app_says_so() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").eligible(() -> "it is not charging").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Event event = client.step(ClientTest.adder(1, 1));
            Check.equal(event.outcome, Event.Outcome.PAUSED);
            Check.says(event.reason, "it is not charging");
            Check.says(event.toString(), "PAUSED");
        }
    }

    public void errors_are_sentences() throws Exception {
        try (Coordinator home = new Coordinator()) {
            Client.Builder wrong = new Client.Builder(home.url(), home.ca(), home.state("x")).token("wrong");
            Check.equal(Check.fails(FedException.class, "token", wrong::open).status(), FedException.EAUTH);
            Check.fails(FileNotFoundException.class, "nosuch.pem",
                    () -> new Client.Builder(home.url(), new File("nosuch.pem"), home.state("x")).open());
            Check.fails(FedException.class, "http://x", () -> new Client.Builder("http://x", home.ca(), home.state("x")).open());
            Check.fails(FedException.class, "", () -> new Client.Builder(home.url(), "no certificate", home.state("x")).open());
            Check.fails(FedException.class, "a server", () -> new Client.Builder(null, home.ca(), home.state("x")).open());
            Check.fails(IllegalArgumentException.class, "samples", () -> new TrainResult(0, 1));
            try (Client client = home.device("d").open()) {
                Check.that(client.enrolled(), "not enrolled");
                Check.equal(Check.fails(FedException.class, "/d", () -> home.device("d").open()).status(), FedException.EBUSY);
            }
            Files.write(new File(home.state("d"), "identity").toPath(), new byte[] {1, 2, 3});
            Check.equal(Check.fails(FedException.class, "identity", () -> home.device("d").open()).status(), FedException.EFORMAT);
        }
    }
}
