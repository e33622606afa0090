/* SPDX-License-Identifier: Apache-2.0
 *
 * CuratorPeer - a stock Curator client that does what its standard input says, one command a line, and answers each with one line:
 *
 *     acquire KIND PATH MS      KIND: mutex, revocable, semmutex, sem:LIMIT, read, write; answers "ok" or "no". When a
 *                               revocable mutex is asked back, "revoked PATH" comes
 *     release KIND PATH         answers "ok"
 *     start KIND PATH           acquires for ever in the background; answers "ok"; "granted KIND PATH" comes when it is so
 *     revoke PATH               asks the holder of the mutex to give it up, as Curator's Revoker does; answers "ok"
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class CuratorPeer {
    /* A mutex belongs to a thread: each lock has its own. */
    private static final class Held {
        final ExecutorService thread = Executors.newSingleThreadExecutor(runnable -> {
            Thread daemon = new Thread(runnable);
            daemon.setDaemon(true);
            return daemon;
        });
        InterProcessLock lock;
        InterProcessSemaphoreV2 semaphore;
        Lease lease;
    }

    private static final Map<String, Held> helds = new HashMap<>();
    private static CuratorFramework client;

    private static InterProcessLock revocable(String path) {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        mutex.makeRevocable(lock -> say("revoked " + path));
        return mutex;
    }

    private static void revoke(String path) throws Exception {
        List<String> children = client.getChildren().forPath(path);
        children.sort(Comparator.comparing(child -> child.substring(child.length() - 10)));
        Revoker.attemptRevoke(client, path + "/" + children.get(0));
    }

    private static Held held(String kind, String path) {
        return helds.computeIfAbsent(kind + " " + path, key -> {
            Held held = new Held();
            if (kind.equals("mutex"))
                held.lock = new InterProcessMutex(client, path);
            else if (kind.equals("revocable"))
                held.lock = revocable(path);
            else if (kind.equals("semmutex"))
                held.lock = new InterProcessSemaphoreMutex(client, path);
            else if (kind.equals("read"))
                held.lock = new InterProcessReadWriteLock(client, path).readLock();
            else if (kind.equals("write"))
                held.lock = new InterProcessReadWriteLock(client, path).writeLock();
            else
                held.semaphore = new InterProcessSemaphoreV2(client, path, Integer.parseInt(kind.substring(4)));
            return held;
        });
    }

    private static boolean acquire(Held held, long ms) throws Exception {
        return held.thread.submit(() -> {
            if (held.semaphore == null)
                return held.lock.acquire(ms, TimeUnit.MILLISECONDS);
            held.lease = held.semaphore.acquire(ms, TimeUnit.MILLISECONDS);
            return held.lease != null;
        }).get();
    }

    private static void release(Held held) throws Exception {
        held.thread.submit(() -> {
            if (held.semaphore == null)
                held.lock.release();
            else
                held.semaphore.returnLease(held.lease);
            return null;
        }).get();
    }

    private static synchronized void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    private static void start(String kind, String path) {
        Held held = held(kind, path);
        held.thread.submit(() -> {
            if (held.semaphore == null)
                held.lock.acquire();
            else
                held.lease = held.semaphore.acquire();
            say("granted " + kind + " " + path);
            return null;
        });
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
        case "acquire":
            return acquire(held(words[1], words[2]), Long.parseLong(words[3])) ? "ok" : "no";
        case "release":
            release(held(words[1], words[2]));
            return "ok";
        case "start":
            start(words[1], words[2]);
            return "ok";
        case "revoke":
            revoke(words[1]);
            return "ok";
        default:
            return "what?";
        }
    }

    public static void main(String[] arguments) throws Exception {
        client = CuratorFrameworkFactory.newClient(arguments[0], new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            try {
                say(answer(line.trim().split(" +")));
            } catch (Exception error) {
                say("error " + error);
            }
        }
        System.exit(0);
    }
}
