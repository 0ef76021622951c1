// fed.Client against a real coordinator, over TLS.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.Event;
import fed.FedException;
import fed.Model;
import fed.Round;
import fed.TrainResult;
import fed.Trainer;
import java.io.File;
import java.nio.FloatBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class ClientTest {
    /** A trainer that adds to each value of layer.weight and of layer.bias. */
    static Trainer adder(float weight, float bias) {
        return (model, round) -> {
            add(model.values("layer.weight"), weight);
            add(model.values("layer.bias"), bias);
            return new TrainResult(10, 0.5f);
        };
    }

    static void add(FloatBuffer values, float step) {
        for (int i = 0; i < values.limit(); i++) {
            values.put(i, values.get(i) + step);
        }
    }

    public void two_devices_train_what_a_plain_computation_gives() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 3, \"cohort\": 2");
            Check.Code first = () -> {
                try (Client client = home.device("first").open()) {
                    client.run(adder(0.5f, 1));
                }
            };
            Check.Code second = () -> {
                try (Client client = home.device("second").open()) {
                    client.run(adder(0.5f, 3));
                }
            };
            Check.sideBySide(first, second);
            home.isModel(1.5f, 6);
        }
    }

    public void a_device_sends_less_than_a_bit_a_value() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("tensors w 64x128", "\"rounds\": 4, \"cohort\": 1, \"phases\": [{\"round\": 2, \"codec_up\": \"eden:p=0.008\"},"
                    + " {\"round\": 4, \"codec_up\": \"eden:p=0.008,scale=tensor\"}]");
            try (Client client = home.device("d").open()) {
                client.run((model, round) -> {
                    add(model.values("w"), 0.125f);
                    return new TrainResult(10, 0.5f);
                });
            }
            double mean = 0;
            for (float value : home.model()) {
                mean += value / (64.0 * 128.0);
            }
            Check.that(mean > 0.4 && mean < 0.6, "each of four rounds adds 1/8 in the mean, but all add " + mean);
        }
    }

    public void private_layers_stay_with_the_device() throws Exception {
        List<Float> heads = new ArrayList<>();
        try (Coordinator home = new Coordinator()) {
            home.task("tensors body.w 3 | head.w 2", "\"rounds\": 3, \"cohort\": 1, \"private_layers\": \"head\"");
            try (Client client = home.device("d").open()) {
                client.run((model, round) -> {
                    Check.that(!round.isPrivate(0) && round.isPrivate(1), "head.w is private, body.w is not");
                    Check.that(round.ownIsNew() == heads.isEmpty(), "the layers are new in the first training alone");
                    add(model.values("head.w"), round.ownIsNew() ? 10 : 1);
                    add(model.values("body.w"), 1);
                    heads.add(model.values("head.w").get(1));
                    return new TrainResult(10, 0.5f);
                });
            }
            Check.equal(heads, Arrays.asList(10f, 11f, 12f));
            Check.equal(home.model().length, 3);
        }
    }

    public void a_device_that_comes_after_the_end_ends_too() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            try (Client client = home.device("first").open()) {
                client.run(adder(1, 1));
            }
            List<Event> events = new ArrayList<>();
            try (Client client = home.device("late").open()) {
                client.run(adder(1, 1), events::add);
            }
            Event last = events.get(events.size() - 1);
            Check.that(last.over && last.outcome == Event.Outcome.WAITED, "the last event is " + last);
        }
    }

    public void two_tasks_take_turns_in_two_slots() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 2, \"cohort\": 1");
            home.task("\"rounds\": 2, \"cohort\": 1");
            List<String> told = new ArrayList<>();
            try (Client client = home.device("d").slots(2).open()) {
                client.run((model, round) -> {
                    told.add(round.task() + " in " + round.slot());
                    return new TrainResult(1, 0);
                });
            }
            Check.equal(told.size(), 4);
            Check.that(!told.get(0).equals(told.get(1)), "the two tasks do not take turns");
            Check.equal(told.subList(0, 2), told.subList(2, 4));
        }
    }

    public void a_callback_is_told_of_its_round_and_model() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1, \"local_steps\": 7, \"batch\": 3, \"learning_rate\": 0.25, \"app\": {\"k\": [1, 2]}");
            List<String> told = new ArrayList<>();
            Round.Progress progress = (round, done, total) -> told.add(round.number() + ": " + done + "/" + total);
            try (Client client = home.device("d").progress(progress).open()) {
                Check.equal(client.device().length(), 64);
                client.run((model, round) -> {
                    Check.equal(model.names(), Arrays.asList("layer.weight", "layer.bias"));
                    Check.that(Arrays.equals(model.shape("layer.weight"), new int[] {3, 4}), "layer.weight has another shape");
                    Check.equal(model.values().remaining(), 17);
                    model.values("layer.bias").put(0, 8);
                    Check.equal(model.values().get(12), 8f); // values() and values(name) share their memory
                    Check.fails(IllegalArgumentException.class, "layer.bias", () -> model.values("other"));
                    Check.equal(round.number() + " " + round.version() + " " + round.localSteps() + " " + round.batch(), "1 0 7 3");
                    Check.equal(round.learningRate(), 0.25f);
                    Check.equal(round.app(), "{\"k\":[1,2]}");
                    Check.equal(round.model(), Coordinator.MODEL);
                    Check.equal(round.optimizer(), "sgd");
                    Check.that(round.leftMs() > 0 && round.leftMs() < Long.MAX_VALUE, "round.leftMs is wrong: " + round.leftMs());
                    Check.that(round.wanted(), "the round is not wanted: " + round.reason());
                    round.progress(7, 7);
                    return new TrainResult(1, 0);
                });
            }
            Check.equal(told, Arrays.asList("1: 7/7"));
        }
    }

    public void a_device_evaluates() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Client.Builder judge = new Client.Builder(home.url(), home.ca(), home.state("judge")).token(home.token("--role", "evaluator"));
            try (Client client = judge.evaluate().open()) {
                Event event = client.step((model, round) -> {
                    Check.equal(round.number(), 0);
                    Check.equal(round.leftMs(), Long.MAX_VALUE);
                    model.values("layer.weight").put(0, 5); // an evaluator's model is its own copy
                    return new TrainResult(10, 0.5f, 4);
                });
                Check.equal(event.outcome, Event.Outcome.EVALUATED);
                Check.equal(event.samples + " " + event.correct + " " + event.loss, "10 4 0.5");
            }
            judge = new Client.Builder(home.url(), home.ca(), home.state("other")).token(home.token("--role", "evaluator"));
            try (Client client = judge.evaluate().open()) {
                Event event = client.step((model, round) -> new TrainResult(10, 0.5f));
                Check.equal(event.outcome + " " + event.correct, "EVALUATED " + TrainResult.NO_CORRECT);
            }
            home.isModel(0, 0);
        }
    }

    public void a_result_may_have_no_loss() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            try (Client client = home.device("d").open()) {
                Event event = client.step((model, round) -> new TrainResult(1));
                Check.equal(event.outcome, Event.Outcome.COUNTED);
                Check.that(Float.isNaN(event.loss), "the loss is " + event.loss);
            }
        }
    }

    public void texts_are_any_utf_8() throws Exception {
        String name = "Ger\u00e4t \ud83d\ude00"; // the emoji has four bytes in UTF-8, six in JNI's own encoding
        String ca;
        try (Coordinator home = new Coordinator()) {
            ca = new String(Files.readAllBytes(home.ca().toPath()), StandardCharsets.UTF_8);
            try (Client client = new Client.Builder(home.url(), ca, home.state(name)).token(home.token()).name(name).open()) {
                Check.that(client.enrolled() && home.state(name).isDirectory(), "the client has not enrolled, or has no state folder");
            }
            Check.says(Check.command("fedserver", "devices", "--dir", home.home), name);
        }
    }

    public void log_lines_arrive() throws Exception {
        List<String> lines = Collections.synchronizedList(new ArrayList<>());
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Client.Log log = (level, line) -> lines.add(level + " " + line);
            try (Client client = home.device("d").log(Client.Log.Level.DEBUG, log).open()) {
                client.run(adder(1, 1));
                home.task("\"rounds\": 1, \"cohort\": 1");
                client.run(adder(1, 1));
            }
        }
        Check.says(lines.toString(), "INFO task");
    }

    public void without_a_log_the_lines_go_to_the_logger_fed() throws Exception {
        List<String> lines = Collections.synchronizedList(new ArrayList<>());
        java.util.logging.Logger logger = java.util.logging.Logger.getLogger("fed");
        java.util.logging.Handler handler = new java.util.logging.Handler() {
            @Override
            public void publish(java.util.logging.LogRecord line) {
                lines.add(line.getLevel() + " " + line.getMessage());
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
        try (Coordinator home = new Coordinator(); Client client = home.device("d").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            home.kill();
            client.run(adder(1, 1), event -> {
                if (event.outcome == Event.Outcome.RETRY && ++retries[0] == 3) {
                    startAgain(home);
                }
            });
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        Check.says(lines.toString(), "INFO round 1: update counted, training loss 0.5000");
        long warnings = lines.stream().filter(line -> line.startsWith("WARNING") && line.contains("trying again in")).count();
        Check.equal(warnings, 1L);
    }

    private final int[] retries = {0};

    private static void startAgain(Coordinator home) {
        try {
            home.start();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    public void samples_have_bounds_and_a_loss_that_is_no_number_is_declined() throws Exception {
        Check.fails(IllegalArgumentException.class, "between 1 and 2^32 - 1", () -> new TrainResult(0));
        Check.fails(IllegalArgumentException.class, "between 1 and 2^32 - 1", () -> new TrainResult(1L << 32));
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            try (Client client = home.device("nan").open()) {
                List<Event.Outcome> outcomes = new ArrayList<>();
                for (int k = 0; k < 100 && !outcomes.contains(Event.Outcome.DECLINED); k++) {
                    Event event = client.step((model, round) -> new TrainResult(1, Float.NaN));
                    outcomes.add(event.outcome);
                    Check.says(event.outcome == Event.Outcome.WAITED ? "left a loss of nan" : event.reason, "left a loss of nan");
                }
                Check.equal(Collections.frequency(outcomes, Event.Outcome.RETRY), 3);
            }
            try (Client client = home.device("many").open()) {
                client.run((model, round) -> new TrainResult(0xffffffffL, 1));
            }
        }
    }

    public void a_private_device_declines_a_task_without_its_helper() throws Exception {
        String key = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
            + "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"; // some point of P-256
        try (Coordinator home = new Coordinator()) {
            Check.fails(FedException.class, "has no helper's key", () -> home.device("wrong").helper(home.ca()).open());
            home.task("\"rounds\": 1, \"cohort\": 1");
            try (Client client = home.device("d").helper(home.write("helper.pem", key)).leastDevices(2).open()) {
                List<String> reasons = new ArrayList<>();
                for (int k = 0; k < 20 && reasons.isEmpty(); k++) {
                    Event event = client.step(adder(1, 1));
                    Check.that(event.outcome != Event.Outcome.COUNTED, "it has trained");
                    if (event.outcome == Event.Outcome.DECLINED) {
                        reasons.add(event.reason);
                    }
                }
                Check.says(String.join("", reasons), "no helper opens its sums");
            }
        }
    }

    public void a_task_with_a_larger_epsilon_than_the_devices_own_is_declined() throws Exception {
        try (Coordinator home = new Coordinator()) {
            for (float wrong : new float[] {0, -1, Float.NaN, Float.POSITIVE_INFINITY}) {
                Check.fails(IllegalArgumentException.class, "a number above 0", () -> home.device("wrong").mostEpsilon(wrong));
            }
            Check.fails(FedException.class, "get helper.pem from the helper's party", () -> home.device("wrong").privateOnly().open());
            home.privateTask("\"epsilon\": 5, \"delta\": 1e-5, \"participations\": 1");
            Trainer trainsNever = (model, round) -> {
                throw new AssertionError("it has trained");
            };
            List<String> lines = new ArrayList<>();
            try (Client client = home.device("d").mostEpsilon(4.5f).log(Client.Log.Level.WARN, (level, line) -> lines.add(line)).open()) {
                Event event = client.step(trainsNever);
                for (int k = 0; k < 20 && event.outcome != Event.Outcome.DECLINED; k++) {
                    event = client.step(trainsNever);
                }
                Check.equal(event.outcome, Event.Outcome.DECLINED);
                Check.says(event.reason, "its promise is epsilon 5; this device wants 4.5 at most");
                Check.says(String.join("", lines), "its promise is epsilon 5; this device wants 4.5 at most");
            }
            try (Client client = home.device("e").mostEpsilon(5).open()) {
                Event event = client.step(adder(1, 1));
                for (int k = 0; k < 20 && event.outcome != Event.Outcome.COUNTED; k++) {
                    event = client.step(adder(1, 1));
                }
                Check.equal(event.outcome, Event.Outcome.COUNTED);
            }
        }
    }

    public void a_killed_coordinator_is_waited_for() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 2, \"cohort\": 1");
            List<Event.Outcome> outcomes = new ArrayList<>();
            try (Client client = home.device("d").open()) {
                client.run((model, round) -> {
                    if (outcomes.isEmpty()) {
                        home.kill();
                        home.start();
                    }
                    return adder(1, 2).train(model, round);
                }, event -> outcomes.add(event.outcome));
            }
            Check.equal(Collections.frequency(outcomes, Event.Outcome.COUNTED), 2);
            home.isModel(2, 4);
        }
    }

    /** A trainer may keep a model, round or buffer after its callback has returned. The model and
     * the round then throw. Writing to the buffer crashes nothing, and changes no later round. */
    public void nothing_of_a_callback_is_of_use_after_it() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("\"rounds\": 5, \"cohort\": 1");
            List<Model> models = new ArrayList<>();
            List<Round> rounds = new ArrayList<>();
            List<FloatBuffer> kept = Collections.synchronizedList(new ArrayList<>());
            Thread writer = new Thread(() -> {
                while (!Thread.interrupted()) {
                    for (FloatBuffer each : kept.toArray(new FloatBuffer[0])) {
                        for (int i = 0; i < each.limit(); i++) {
                            each.put(i, Float.NaN);
                        }
                    }
                }
            });
            writer.start();
            FloatBuffer[] latest = {null};
            try (Client client = home.device("d").open()) {
                client.run((model, round) -> {
                    models.add(model);
                    rounds.add(round);
                    latest[0] = model.values();
                    Check.sideBySide(() -> Check.fails(IllegalStateException.class, "own thread", round::wanted));
                    return adder(1, 1).train(model, round);
                }, event -> {
                    System.gc();
                    kept.add(latest[0]);
                });
            } finally {
                writer.interrupt();
                writer.join();
            }
            home.isModel(5, 5);
            for (Model model : models) {
                Check.fails(IllegalStateException.class, "has returned", () -> model.values("layer.bias"));
                Check.fails(IllegalStateException.class, "has returned", model::values);
                Check.fails(IllegalStateException.class, "has returned", model::names);
                Check.fails(IllegalStateException.class, "has returned", () -> model.shape("layer.bias"));
            }
            for (Round round : rounds) {
                Check.fails(IllegalStateException.class, "has returned", round::wanted);
                Check.fails(IllegalStateException.class, "has returned", round::leftMs);
                Check.equal(round.model(), Coordinator.MODEL);
            }
        }
    }

    public void numbers_are_those_of_the_headers() throws Exception {
        String statuses = new String(Files.readAllBytes(new File(Check.ROOT, "common/include/fed/status.h").toPath()), StandardCharsets.UTF_8);
        for (String name : new String[] {"EINVAL", "EFORMAT", "ENOSPC", "ENOMEM", "EIO", "ENOTFOUND", "EAUTH", "ETIMEOUT", "ENET",
            "ESTATE", "ENONFINITE", "ERANGE", "EBUSY", "ECANCELED"}) {
            Check.says(statuses, "FED_" + name + " = " + FedException.class.getField(name).getInt(null) + ",");
        }
        File header = new File(Check.ROOT, "fedclient/include/fedclient/fedclient.h");
        Matcher outcome = Pattern.compile("FEDCLIENT_(\\w+) = (\\d+)")
                .matcher(new String(Files.readAllBytes(header.toPath()), StandardCharsets.UTF_8));
        List<String> found = new ArrayList<>(), wanted = new ArrayList<>();
        while (outcome.find()) {
            found.add(outcome.group(1) + outcome.group(2));
        }
        for (Event.Outcome each : Event.Outcome.values()) {
            wanted.add(each.name() + each.ordinal());
        }
        Check.equal(found, wanted);
    }
}
