// Another thread can end a client. A closed client refuses calls.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.Event;
import fed.FedException;
import fed.TrainResult;
import java.util.concurrent.CountDownLatch;

final class StopTest {
    public void a_step_that_waits_ends() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) { // no task: the step waits for one
            Check.sideBySide(() -> client.run(ClientTest.adder(1, 1)), () -> {
                Thread.sleep(200); // by now the coordinator most likely holds the answer back; the test passes in either case
                client.stop();
            });
            FedException stopped = Check.fails(FedException.class, "asked this client to stop", () -> client.step(ClientTest.adder(1, 1)));
            Check.equal(stopped.status(), FedException.ECANCELED);
        }
    }

    public void a_pause_between_two_steps_ends() throws Exception {
        CountDownLatch paused = new CountDownLatch(1);
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.kill();
            Check.sideBySide(() -> client.run(ClientTest.adder(1, 1), event -> {
                Check.equal(event.outcome, Event.Outcome.RETRY);
                paused.countDown();
            }), () -> {
                paused.await();
                client.stop();
            });
        }
    }

    public void a_training_is_told_and_dropped() throws Exception {
        CountDownLatch training = new CountDownLatch(1);
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            try (Client client = home.device("d").open()) {
                Check.sideBySide(() -> client.run((model, round) -> {
                    Check.that(round.wanted(), round.reason());
                    training.countDown();
                    ClientTest.add(model.values(), 100);
                    while (round.wanted()) {
                        Thread.sleep(1);
                    }
                    Check.says(round.reason(), "asked this client to stop");
                    return new TrainResult(1, 0);
                }), () -> {
                    training.await();
                    client.stop();
                });
            }
            try (Client client = home.device("d").open()) {
                client.run(ClientTest.adder(1, 2));
            }
            home.isModel(1, 2);
        }
    }

    public void an_interrupt_ends_a_run_and_the_next_one_goes_on() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) { // no task: the step waits for one
            Thread here = Thread.currentThread();
            Thread other = new Thread(() -> {
                sleep(200); // by now the coordinator most likely holds the answer back; the test passes in either case
                here.interrupt();
            });
            other.start();
            Check.fails(InterruptedException.class, "interrupted", () -> client.run(ClientTest.adder(1, 1)));
            other.join();
            Check.that(!Thread.interrupted(), "the interrupt is told twice");
            home.task("\"rounds\": 1, \"cohort\": 1");
            client.run(ClientTest.adder(1, 2));
            home.isModel(1, 2);
        }
    }

    public void an_interrupt_ends_a_step_an_enrolment_and_a_pause() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            Thread.currentThread().interrupt();
            Check.fails(InterruptedException.class, "asked this client to stop", () -> client.step(ClientTest.adder(1, 1)));
            String token = home.token();
            Thread.currentThread().interrupt();
            FedException stopped = Check.fails(FedException.class, "", () -> home.fresh("e", token).open());
            Check.equal(stopped.status(), FedException.ECANCELED);
            Check.that(Thread.interrupted(), "the enrolment has taken the interrupt away");
            home.kill();
            Check.fails(InterruptedException.class, "interrupted",
                    () -> client.run(ClientTest.adder(1, 1), event -> Thread.currentThread().interrupt()));
        }
    }

    public void an_enrolment_waits_for_its_coordinator() throws Exception {
        try (Coordinator home = new Coordinator()) {
            String token = home.token();
            CountDownLatch failed = new CountDownLatch(1);
            home.kill();
            Check.sideBySide(() -> home.fresh("f", token).log(Client.Log.Level.WARN, (level, line) -> {
                if (line.contains("this device tries again in 0.5 s to enrol")) {
                    failed.countDown();
                }
            }).open().close(), () -> {
                failed.await();
                home.start();
            });
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException unexpected) {
            throw new AssertionError(unexpected);
        }
    }

    public void a_second_thread_is_refused() throws Exception {
        CountDownLatch training = new CountDownLatch(1);
        CountDownLatch refused = new CountDownLatch(1);
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Check.sideBySide(() -> client.run((model, round) -> {
                training.countDown();
                refused.await();
                return ClientTest.adder(1, 2).train(model, round);
            }), () -> {
                training.await();
                try {
                    Check.fails(IllegalStateException.class, "another thread works", () -> client.step(ClientTest.adder(1, 1)));
                    Check.fails(IllegalStateException.class, "another thread works", () -> client.run(ClientTest.adder(1, 1)));
                    Check.equal(client.device().length(), 64); // needs no turn
                } finally {
                    refused.countDown();
                }
            });
            home.isModel(1, 2);
        }
    }

    public void close_waits_for_a_step_in_another_thread() throws Exception {
        try (Coordinator home = new Coordinator()) {
            Client client = home.device("d").open();
            CountDownLatch running = new CountDownLatch(1);
            Check.sideBySide(() -> {
                running.countDown();
                client.run(ClientTest.adder(1, 1));
            }, () -> {
                running.await();
                client.close();
            });
            home.device("d").open().close();
        }
    }

    public void a_closed_client_says_so() throws Exception {
        try (Coordinator home = new Coordinator()) {
            Client client = home.device("d").open();
            client.close();
            client.close();
            client.stop();
            Check.fails(IllegalStateException.class, "closed", () -> client.step(ClientTest.adder(1, 1)));
            Check.fails(IllegalStateException.class, "closed", client::enrolled);
        }
    }

    public void a_callback_can_not_close_its_client() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            client.run((model, round) -> {
                Check.fails(IllegalStateException.class, "callback", client::close);
                Check.fails(IllegalStateException.class, "callback", () -> client.step(ClientTest.adder(1, 1)));
                Check.fails(IllegalStateException.class, "callback", () -> client.run(ClientTest.adder(1, 1)));
                return ClientTest.adder(1, 1).train(model, round);
            });
            home.isModel(1, 1);
        }
    }
}
