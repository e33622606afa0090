/* SPDX-License-Identifier: Apache-2.0
 *
 * Peer - the workloads of README.md for a lock of Java's. A peer gives a way to open a client with a lock.
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

public final class Peer {
    /* A connection or session of its own, and one lock on it. Used by many threads in `threads`. */
    public interface Client {
        void acquire() throws Exception;
        void release() throws Exception;
        void close() throws Exception;
    }

    public interface Opener {
        Client open(String lock) throws Exception;
    }

    private static final int SAMPLES = 1 << 20;

    private final Opener opener;
    private final AtomicBoolean stop = new AtomicBoolean();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicInteger owner = new AtomicInteger();
    private final AtomicLong total = new AtomicLong();
    private volatile boolean counts;
    private volatile long releasedAt;
    private long[] samples; /* written by who holds */
    private int sampleCount;

    private Peer(Opener opener) {
        this.opener = opener;
    }

    private static double atShare(long[] sorted, double share) {
        return sorted[(int) Math.min(sorted.length - 1, sorted.length * share)] / 1000.0;
    }

    private static String tell(double rate, long[] times) {
        if (times == null || times.length == 0)
            return String.format("{\"rate\": %.3f}", rate);
        Arrays.sort(times);
        return String.format("{\"rate\": %.3f, \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f}", rate, atShare(times, 0.5),
            atShare(times, 0.99), atShare(times, 0.999));
    }

    private static void pair(Client client) throws Exception {
        client.acquire();
        client.release();
    }

    private String alone(long ms) throws Exception {
        Client client = opener.open("pawl-bench-peer-alone");
        long[] times = new long[SAMPLES];
        int count = 0;
        for (long end = System.nanoTime() + ms * 250_000; System.nanoTime() < end;)
            pair(client);
        long begin = System.nanoTime(), end = begin + ms * 1_000_000, now = begin;
        while (now < end && count < SAMPLES) {
            long before = now;
            pair(client);
            now = System.nanoTime();
            times[count++] = now - before;
        }
        client.close();
        return tell(count * 1e9 / (now - begin), Arrays.copyOf(times, count));
    }

    private void takeTurn(Client client, int self) throws Exception {
        waiting.incrementAndGet();
        client.acquire();
        waiting.decrementAndGet();
        long now = System.nanoTime();
        if (owner.getAndSet(self) != self) {
            total.incrementAndGet();
            if (counts && releasedAt != 0 && sampleCount < SAMPLES)
                samples[sampleCount++] = now - releasedAt;
        }
        while (waiting.get() == 0 && !stop.get())
            Thread.yield();
        releasedAt = System.nanoTime();
        client.release();
    }

    private void hold(Client client) throws Exception {
        client.acquire();
        total.incrementAndGet();
        client.release();
    }

    private interface Step {
        void run() throws Exception;
    }

    private static Thread start(Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Exception error) {
                System.err.println(error);
            }
        });
        thread.start();
        return thread;
    }

    private Thread loop(Step step) {
        return start(() -> {
            while (!stop.get())
                step.run();
        });
    }

    private static void join(Thread[] threads) throws InterruptedException {
        for (Thread thread : threads)
            thread.join();
    }

    private String count(long ms, Thread[] threads, Client[] clients) throws Exception {
        Thread.sleep(ms / 4);
        total.set(0);
        counts = true;
        long begin = System.nanoTime();
        Thread.sleep(ms);
        double rate = total.get() * 1e9 / (System.nanoTime() - begin);
        counts = false;
        stop.set(true);
        join(threads);
        /* At the same time: closing one takes a library a while. */
        join(Arrays.stream(clients).map(client -> start(client::close)).toArray(Thread[]::new));
        return tell(rate, samples == null ? null : Arrays.copyOf(samples, sampleCount));
    }

    private String turns(int number, long ms) throws Exception {
        Client[] clients = new Client[number];
        Thread[] threads = new Thread[number];
        samples = new long[SAMPLES];
        for (int i = 0; i < number; i++)
            clients[i] = opener.open("pawl-bench-peer-turns");
        for (int i = 0; i < number; i++) {
            int self = i + 1;
            threads[i] = loop(() -> takeTurn(clients[self - 1], self));
        }
        return count(ms, threads, clients);
    }

    private String threads(int number, long ms) throws Exception {
        Client client = opener.open("pawl-bench-peer-threads");
        Thread[] threads = new Thread[number];
        for (int i = 0; i < number; i++)
            threads[i] = loop(() -> hold(client));
        return count(ms, threads, new Client[] {client});
    }

    private static String answer(String[] words, Opener opener) throws Exception {
        Peer peer = new Peer(opener);
        switch (words[0]) {
        case "alone":
            return peer.alone(Long.parseLong(words[1]));
        case "turns":
            return peer.turns(Integer.parseInt(words[1]), Long.parseLong(words[2]));
        case "threads":
            return peer.threads(Integer.parseInt(words[1]), Long.parseLong(words[2]));
        default:
            return "{\"missing\": \"it knows no such workload\"}";
        }
    }

    /* Serve standard input. */
    public static void run(String name, String version, Opener opener, AutoCloseable atEnd) throws Exception {
        System.out.println("{\"peer\": \"" + name + "\", \"version\": \"" + version + "\"}");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            try {
                System.out.println(answer(line.trim().split(" +"), opener));
            } catch (Exception error) {
                System.out.println("{\"missing\": \"" + error.toString().replaceAll("[\"\\\\\n]", " ") + "\"}");
            }
        }
        atEnd.close();
        System.exit(0);
    }
}
