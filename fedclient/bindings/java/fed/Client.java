// A device that takes part in federated learning.
// SPDX-License-Identifier: Apache-2.0
package fed;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.concurrent.locks.ReentrantLock;
import java.util.logging.Logger;

/**
 * A device that takes part in federated learning. Its state, which includes a residual, is kept in
 * a folder and survives power loss and a killed process.
 *
 * <pre>
 * try (Client client = new Client.Builder("https://host:8443", ca, state).token(token).open()) {
 *     client.run((model, round) -&gt; {
 *         FloatBuffer w = model.values("layer.weight");
 *         ...                                        // w.put(i, w.get(i) - round.learningRate() * gradient)
 *         return new TrainResult(samples, loss);
 *     });
 * }
 * </pre>
 *
 * <p>Several clients may work side by side, each in a folder of its own. {@link #stop} may be called from any thread.
 * {@link #close} waits until a thread that works with the client is out. Other methods refuse a second thread, and a
 * callback, with a sentence. An interrupt of the thread ends {@link #step}, {@link #run} and {@link #enrol} within about a
 * second.
 */
public final class Client implements AutoCloseable {
    /** Says whether this device may train now. The client asks in each step, and sometimes
     * during the training. */
    public interface Eligibility {
        /** Returns null if this device may train; otherwise why it may not now, such as "it is not
         * charging". */
        String refusal();
    }

    public interface Log {
        enum Level { DEBUG, INFO, WARN, ERROR }

        void log(Level level, String line);
    }

    public interface Listener {
        void event(Event event);
    }

    /** The options of a client, and open(). */
    public static final class Builder {
        private final String server;
        private final File caFile, state;
        private String caPem, token, name, software = "java-fed", computesOn, helper;
        private boolean evaluate;
        private int slots = 1, leastDevices;
        private float mostEpsilon; // 0: any
        private boolean privateOnly;
        private Eligibility eligibility;
        private Round.Progress progress;
        private Log log;
        private Log.Level level = Log.Level.INFO;

        /**
         * @param server the address of the coordinator, "https://host:8443"
         * @param ca the coordinator's ca.pem
         * @param state a folder of this client alone; made if missing
         */
        public Builder(String server, File ca, File state) {
            this.server = server;
            this.caFile = ca;
            this.state = state;
        }

        /** caPem: the text of the coordinator's ca.pem, for example from an app's assets. */
        public Builder(String server, String caPem, File state) {
            this(server, (File) null, state);
            this.caPem = caPem;
        }

        /** The token to enrol with; needed the first time, and where the coordinator refuses this device. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** This device's name for the coordinator's operator, up to 63 bytes of UTF-8; sent at enrolment. */
        public Builder name(String name) {
            this.name = name;
            return this;
        }

        /** The name of the program, such as "my-app/1.2". */
        public Builder software(String software) {
            this.software = software;
            return this;
        }

        /** The hardware that the trainer computes on, for the operator; null: the processor. */
        public Builder computesOn(String computesOn) {
            this.computesOn = computesOn;
            return this;
        }

        /** Measure models instead of training them. The token must have been made with `--role
         * evaluator`. */
        public Builder evaluate() {
            this.evaluate = true;
            return this;
        }

        /** For how many tasks at once this device keeps a model and a residual, 1 to 8; the default
         * is 1. */
        public Builder slots(int slots) {
            if (slots < 1) {
                throw new IllegalArgumentException("a client has 1 to 8 slots, not " + slots);
            }
            this.slots = slots;
            return this;
        }

        /** A file with the key of the helper that this device trusts, such as the helper's helper.pem:
         * it trains only for private tasks whose sums this helper opens. */
        public Builder helper(File helper) {
            this.helper = helper.getPath();
            return this;
        }

        /** Train only for private tasks with a helper, whose rounds have at least so many devices. */
        public Builder leastDevices(int devices) {
            if (devices < 0) {
                throw new IllegalArgumentException("a round has no " + devices + " devices");
            }
            this.leastDevices = devices;
            return this;
        }

        /** Train only for tasks that promise each device an epsilon of at most this. */
        public Builder mostEpsilon(float epsilon) {
            if (!(epsilon > 0) || Float.isInfinite(epsilon)) {
                throw new IllegalArgumentException("the largest epsilon that a device accepts is a number above 0, not " + epsilon);
            }
            this.mostEpsilon = epsilon;
            return this;
        }

        /** Train for private tasks only. This needs {@link #helper}, and rounds have at least 20 devices where
         * {@link #leastDevices} does not say how many. */
        public Builder privateOnly() {
            this.privateOnly = true;
            return this;
        }

        public Builder eligible(Eligibility eligibility) {
            this.eligibility = eligibility;
            return this;
        }

        public Builder progress(Round.Progress progress) {
            this.progress = progress;
            return this;
        }

        /** level: the lowest level of lines that are passed to log. Without this call, the lines go to
         * the java.util.logging.Logger "fed". */
        public Builder log(Log.Level level, Log log) {
            this.level = level;
            this.log = log;
            return this;
        }

        /**
         * Open the client, and give it its token (see {@link Client#enrol}).
         *
         * @throws FedException with the library's message, such as for a wrong address, a folder in use, or an
         *     unknown token
         * @throws IOException the CA's file can't be read
         */
        public Client open() throws IOException {
            Client client = new Client(this, caFile == null ? caPem : read(caFile));
            try {
                if (token != null) {
                    client.enrol(token);
                }
                return client;
            } catch (RuntimeException | Error failure) {
                client.close();
                throw failure;
            }
        }

        private static String read(File file) throws IOException {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            byte[] part = new byte[4096];
            try (InputStream in = new FileInputStream(file)) {
                for (int n = in.read(part); n >= 0; n = in.read(part)) {
                    all.write(part, 0, n);
                }
            }
            return Native.text(all.toByteArray());
        }
    }

    private static final String CLOSED = "this client is closed";
    private static final Logger LOGGER = Logger.getLogger("fed");

    private final Eligibility eligibility;
    private final Round.Progress progress;
    private final Log log;

    private final ReentrantLock busy = new ReentrantLock(); // held while the library works for this client
    private final Object gate = new Object(); // guards handle and stopped against stop(), which does not wait
    private long handle; // 0: closed
    private boolean stopped;
    private volatile String device = ""; // as it was when the library last returned, or told an event

    private Trainer trainer; // the trainer of the running step
    private Listener listener; // of the running run(), or null
    private ByteBuffer block; // the memory of the running callback

    private Client(Builder builder, String caPem) {
        eligibility = builder.eligibility;
        progress = builder.progress;
        log = builder.log != null ? builder.log : Client::logLine;
        byte[][] texts = {Native.bytes(builder.server), Native.bytes(caPem), Native.bytes(builder.state.getPath()),
            Native.bytes(builder.name), Native.bytes(builder.software), Native.bytes(builder.computesOn),
            Native.bytes(builder.helper)};
        Log.Level level = builder.log != null ? builder.level : Log.Level.DEBUG;
        handle = Native.open(this, texts, builder.evaluate, builder.slots, builder.leastDevices, builder.mostEpsilon,
                builder.privateOnly, level.ordinal());
        note();
    }

    /** Does this device have a certificate? */
    public boolean enrolled() {
        return !device().isEmpty();
    }

    /**
     * Get a certificate with a one-time token. While nobody answers, or the coordinator is busy, this tries again for a
     * minute, with a line of level WARN before each wait. After a failure call this again with the same token. A device that has a
     * certificate keeps the token: if the coordinator refuses the device, the token enrols it with a new key.
     *
     * @throws FedException with the library's message; ECANCELED after {@link #stop} or an interrupt of this thread, which
     *     stays interrupted
     */
    public void enrol(String token) {
        begin();
        try {
            Native.enrol(handle, this, Native.bytes(token));
        } finally {
            end();
        }
    }

    /** The fingerprint of this device's key, as the operator sees it; "" before enrolment. */
    public String device() {
        synchronized (gate) {
            if (handle == 0) {
                throw new IllegalStateException(CLOSED);
            }
        }
        return device;
    }

    /**
     * Do one thing: send what is pending, or ask for work and do it. Blocks as long as that takes.
     *
     * @throws FedException a failure that needs a person; ECANCELED after {@link #stop}
     * @throws InterruptedException this thread was interrupted, and a later step goes on where this one was
     * @throws Exception what the trainer or another callback has thrown, unchanged
     */
    public Event step(Trainer trainer) throws Exception {
        begin();
        try {
            this.trainer = trainer;
            int[] numbers = new int[Event.NUMBERS];
            byte[] reason = Native.step(handle, this, numbers);
            return new Event(numbers, Native.text(reason));
        } catch (FedException failure) {
            throw orInterrupt(failure);
        } finally {
            end();
        }
    }

    /** As the method with a listener, without one. */
    public void run(Trainer trainer) throws Exception {
        run(trainer, null);
    }

    /** Take part until the task is finished, with several slots until all tasks are, or until {@link
     * #stop} is called: in C, {@code fedclient_app_run}. The listener, which may be null, gets what
     * each step did. Throws what {@link #step} throws. */
    public void run(Trainer trainer, Listener listener) throws Exception {
        begin();
        try {
            this.trainer = trainer;
            this.listener = listener;
            if (!isStopped() && !Native.run(handle, this) && Thread.interrupted()) {
                throw new InterruptedException("the thread of this client was interrupted");
            }
        } finally {
            end();
        }
    }

    /** Let {@link #run} return soon. May be called from any thread. Does nothing after {@link
     * #close}. */
    public void stop() {
        synchronized (gate) {
            stopped = true;
            if (handle != 0) {
                Native.stop(handle);
            }
        }
    }

    /** Stop, wait for a step that runs in another thread, and release the folder. Closing twice does no harm. */
    @Override
    public void close() {
        refuseWithin();
        stop();
        busy.lock();
        try {
            long last;
            synchronized (gate) {
                last = handle;
                handle = 0;
            }
            if (last != 0) {
                Native.close(last);
            }
        } finally {
            busy.unlock();
        }
    }

    private void refuseWithin() {
        if (busy.isHeldByCurrentThread()) {
            throw new IllegalStateException("a callback of this client can't call this method; it may call stop()");
        }
    }

    private void begin() {
        refuseWithin();
        if (!busy.tryLock()) {
            throw new IllegalStateException("another thread works with this client: call stop() and wait for that thread, or give "
                    + "each thread a client of its own");
        }
        if (handle == 0) {
            busy.unlock();
            throw new IllegalStateException(CLOSED);
        }
    }

    private void note() {
        device = Native.text(Native.device(handle));
    }

    private void end() {
        trainer = null;
        listener = null;
        block = null;
        note();
        busy.unlock();
    }

    private boolean isStopped() {
        synchronized (gate) {
            return stopped;
        }
    }

    /** What to throw for a failure: InterruptedException, if it comes of this thread's interrupt. */
    private Exception orInterrupt(FedException failure) {
        if (failure.status() == FedException.ECANCELED && !isStopped() && Thread.interrupted()) {
            return new InterruptedException(failure.getMessage());
        }
        return failure;
    }

    /** Only a Round calls this, within a callback, while the client is open. */
    long handle() {
        return handle;
    }

    void tellProgress(Round round, int done, int total) {
        if (progress != null) {
            progress.progress(round, done, total);
        }
    }

    // The library calls the methods below within a call such as step(), on its thread, and the call
    // throws what they throw. proguard.txt keeps these methods.

    /** Memory for a callback's values. The Java machine owns the memory, so it is valid as long as
     * anything refers to it. */
    private ByteBuffer onRoom(long size) {
        if (size > Integer.MAX_VALUE) {
            throw new FedException(FedException.ENOMEM,
                    "the model takes " + size + " bytes, and a Java buffer has at most " + Integer.MAX_VALUE);
        }
        block = ByteBuffer.allocateDirect((int) size);
        return block;
    }

    /** offset: where in the block the values begin. Returns why the trainer declines; null: the
     * trainer has trained. */
    private byte[] onTrain(long address, int offset, byte[][] texts, long[] numbers, float learningRate, byte[][] names, int[][] shapes)
            throws Exception {
        Model model = new Model(block, offset, names, shapes);
        Round round = new Round(this, address, texts, numbers, learningRate);
        try {
            TrainResult result = trainer.train(model, round);
            if (result == null) {
                throw new NullPointerException("the trainer returned null instead of a TrainResult");
            }
            Native.roundResult(address, result.samples, result.loss, result.correct);
            return null;
        } catch (Decline why) {
            return Native.bytes(why.getMessage() == null ? "the app declined it" : why.getMessage());
        } finally {
            model.end();
            round.end();
        }
    }

    private byte[] onEligible() {
        return eligibility == null ? null : Native.bytes(eligibility.refusal());
    }

    private boolean onStopped() {
        return Thread.currentThread().isInterrupted();
    }

    private void onEvent(int[] numbers, byte[] reason) {
        note(); // a step may have enrolled the device with a new key
        if (listener != null) {
            listener.event(new Event(numbers, Native.text(reason)));
        }
    }

    private void onLog(int level, byte[] line) {
        log.log(Log.Level.values()[level], Native.text(line));
    }

    private static void logLine(Log.Level level, String line) {
        java.util.logging.Level there = level == Log.Level.DEBUG ? java.util.logging.Level.FINE
                : level == Log.Level.INFO ? java.util.logging.Level.INFO
                : level == Log.Level.WARN ? java.util.logging.Level.WARNING : java.util.logging.Level.SEVERE;
        LOGGER.log(there, line);
    }
}
