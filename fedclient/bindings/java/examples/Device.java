// The smallest device in Java: it fits a line to numbers of its own. The coordinator's task must have the model
// "tensors slope 1 | offset 1".
//
//     javac -cp fed.jar Device.java
//     java -cp fed.jar:. -Djava.library.path=FOLDER Device https://127.0.0.1:8443 ca.pem STATE TOKEN
//
// FOLDER has libfedjni.so. STATE is a folder, made if missing, in which the device keeps its key and what it has not sent yet.
// SPDX-License-Identifier: Apache-2.0
import fed.Client;
import fed.Decline;
import fed.Model;
import fed.Round;
import fed.TrainResult;
import java.io.File;
import java.nio.FloatBuffer;

final class Device {
    private static final float[] X = {-1, -0.5f, 0, 0.5f, 1};

    /** This device's data: the points of the line y = 3 x + 1. */
    private static float y(float x) {
        return 3 * x + 1;
    }

    /** Steps of gradient descent on the mean squared error. */
    static TrainResult train(Model model, Round round) {
        if (!model.names().contains("slope") || !model.names().contains("offset")) {
            throw new Decline("this device trains the model \"tensors slope 1 | offset 1\" only");
        }
        FloatBuffer slope = model.values("slope");
        FloatBuffer offset = model.values("offset");
        float loss = 0;
        for (int step = 0; step < round.localSteps() && round.wanted(); step++) {
            float atSlope = 0;
            float atOffset = 0;
            loss = 0;
            for (float x : X) {
                float error = slope.get(0) * x + offset.get(0) - y(x);
                loss += error * error / X.length;
                atSlope += 2 * error * x / X.length;
                atOffset += 2 * error / X.length;
            }
            slope.put(0, slope.get(0) - round.learningRate() * atSlope);
            offset.put(0, offset.get(0) - round.learningRate() * atOffset);
        }
        return new TrainResult(X.length, loss);
    }

    public static void main(String[] words) throws Exception {
        if (words.length != 4) {
            System.err.println("usage: Device https://HOST:PORT CA.PEM STATE TOKEN");
            System.exit(2);
        }
        try (Client client = new Client.Builder(words[0], new File(words[1]), new File(words[2])).token(words[3]).open()) {
            client.run(Device::train, event -> System.out.println(event.outcome + " in round " + event.round));
        }
    }

    private Device() {}
}
