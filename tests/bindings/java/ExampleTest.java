// The example of docs/java.md: it learns its line, and declines another model.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.Event;

public final class ExampleTest {
    public void the_example_learns_its_line() throws Exception {
        try (Coordinator home = new Coordinator()) {
            home.task("tensors slope 1 | offset 1", "\"rounds\": 5, \"cohort\": 1, \"local_steps\": 50, \"learning_rate\": 0.1");
            Device.main(new String[] {home.url(), home.ca().getPath(), home.state("example").getPath(), home.token()});
            float[] line = home.model();
            Check.equal(line.length, 2);
            Check.that(Math.abs(line[0] - 3) < 0.01 && Math.abs(line[1] - 1) < 0.01, "the line is " + line[0] + " x + " + line[1]);
        }
    }

    public void it_declines_another_model() throws Exception {
        try (Coordinator home = new Coordinator(); Client client = home.device("example").open()) {
            home.task("\"rounds\": 1, \"cohort\": 1");
            Event event = client.step(Device::train);
            for (int k = 0; k < 100 && event.outcome != Event.Outcome.DECLINED; k++) {
                Thread.sleep(event.waitMs);
                event = client.step(Device::train);
            }
            Check.that(event.reason.contains("tensors slope 1"), "the last event is " + event);
        }
    }
}
