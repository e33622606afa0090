// SPDX-License-Identifier: Apache-2.0
//
// Redisson and pawl on the same locks: each excludes the other, wakes the other, and reads the other's keys. Arguments: pawl, its URL,
// the ports that Redisson is given, and the ports of all servers, both separated by commas.
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.config.Config;

public class Interop {
    static final int PATIENCE_MS = 30000, ROUNDS = 3;
    static String pawl, url;
    static String[] entrances, servers;

    interface Step {
        void run() throws Exception;
    }

    interface Taking {
        boolean take(long seconds) throws Exception;
    }

    static ProcessBuilder pawls(String[] how, String... rest) {
        List<String> command = new ArrayList<>(List.of(pawl, "run", "-u", url));
        command.addAll(List.of(how));
        command.addAll(List.of(rest));
        return new ProcessBuilder(command).inheritIO();
    }

    static int run(String... args) throws Exception {
        return pawls(args).start().waitFor();
    }

    static void check(boolean ok, String what) {
        if (!ok)
            throw new AssertionError(what);
        System.out.println("# " + what);
    }

    static void await(Callable<Boolean> condition, String what) throws Exception {
        for (long begin = System.nanoTime(); !condition.call(); Thread.sleep(10))
            if (System.nanoTime() - begin > PATIENCE_MS * 1000000L)
                throw new AssertionError("never: " + what);
    }

    // How many listen on a channel, on all servers together. In a cluster the channels are those of a slot.
    static long listeners(String channel) throws Exception {
        String verb = url.startsWith("redis-cluster:") ? "shardnumsub" : "numsub";
        long count = 0;
        for (String port : servers) {
            Process ask = new ProcessBuilder("redis-cli", "-p", port, "pubsub", verb, channel).start();
            String[] lines = new String(ask.getInputStream().readAllBytes()).trim().split("\n");
            count += Long.parseLong(lines[lines.length - 1]);
        }
        return count;
    }

    // pawl waits for what Redisson holds and gives back, in one step or two, and is told of it. Its own look every few seconds may
    // come first: then nothing is proven, and it is played again.
    static void wakesPawl(String name, String[] how, Step take, Step... give) throws Exception {
        boolean told = false;
        for (int round = 0; round < ROUNDS && !told; round++) {
            Path trace = Files.createTempFile("pawl", "trace");
            take.run();
            check(pawls(how, "-n", name, "--", "true").start().waitFor() == 75, name + ": pawl finds Redisson's hold");
            Process waiting = pawls(how, "--trace", name, "--", "true").redirectError(trace.toFile()).start();
            await(() -> Files.readString(trace).contains("listening to foreign holders"), name + ": pawl listens");
            if (give.length == 2) {
                give[0].run();
                check(listeners(channel(name)) > 0 && waiting.isAlive(), name + ": one of two unlocks frees nothing");
            }
            give[give.length - 1].run();
            check(waiting.waitFor() == 0, name + ": pawl gets it after Redisson");
            told = Files.readString(trace).contains("a foreign holder let go");
            Files.delete(trace);
        }
        check(told, name + ": Redisson's unlock wakes pawl");
    }

    // pawl holds while Redisson tries and waits; its lease is longer than Redisson waits, so that only a message can end that.
    static void wakesRedisson(String name, String[] how, Taking taking) throws Exception {
        Path holds = Files.createTempFile("pawl", "holds"), stays = Files.createTempFile("pawl", "stays");
        String script = "rm " + holds + "; while [ -e " + stays + " ]; do sleep 0.05; done";
        Process holder = pawls(how, "--lease", "90", name, "--", "sh", "-c", script).start();
        await(() -> !Files.exists(holds), name + ": pawl holds");
        check(!taking.take(0), name + ": Redisson finds pawl's hold");
        CompletableFuture<Boolean> taken = CompletableFuture.supplyAsync(() -> {
            try {
                return taking.take(40);
            } catch (Exception error) {
                throw new CompletionException(error);
            }
        });
        await(() -> listeners(channel(name)) > 0, name + ": Redisson listens");
        check(!taken.isDone(), name + ": Redisson waits");
        Files.delete(stays);
        check(taken.get(), name + ": pawl's release wakes Redisson");
        check(holder.waitFor() == 0, name + ": pawl lost nothing");
    }

    static String channel(String name) {
        String prefix = name.equals("rw") ? "redisson_rwlock" : name.equals("sem") ? "redisson_sc" : "redisson_lock__channel";
        return prefix + ":{" + name + "}";
    }

    static void excludes(RLock lock, String name, String... how) throws Exception {
        wakesPawl(name, how, () -> { lock.lock(); lock.lock(); }, lock::unlock, lock::unlock);
    }

    static void excluded(RLock lock, String name, String... how) throws Exception {
        wakesRedisson(name, how, seconds -> {
            boolean taken = lock.tryLock(seconds, TimeUnit.SECONDS);
            if (taken)
                lock.unlock();
            return taken;
        });
    }

    static void semaphore(RPermitExpirableSemaphore semaphore) throws Exception {
        List<String> permits = new ArrayList<>();
        semaphore.trySetPermits(2);
        permits.add(semaphore.acquire(60, TimeUnit.SECONDS));
        check(run("-n", "--permits", "2/2", "sem", "--", "true") == 75, "sem: pawl sees Redisson's permit");
        check(run("-n", "--permits", "1/2", "sem", "--", "true") == 0, "sem: and takes the other");
        semaphore.release(permits.remove(0));
        wakesPawl("sem", new String[] {"--permits", "2/2"}, () -> permits.add(semaphore.acquire(60, TimeUnit.SECONDS)),
                  () -> semaphore.release(permits.remove(0)));
        wakesRedisson("sem", new String[] {"--permits", "2/2"}, seconds -> {
            String permit = semaphore.tryAcquire(seconds, 60, TimeUnit.SECONDS);
            if (permit != null)
                semaphore.release(permit);
            return permit != null;
        });
        check(semaphore.availablePermits() == 2, "sem: Redisson counts them all");
    }

    // The token rises from each holder to the next, whichever of the two it is.
    static void tokens(RFencedLock lock, String name) throws Exception {
        long last = 0;
        for (int i = 0; i < 4; i++) {
            long token;
            if (i % 2 == 0) {
                Path file = Files.createTempFile("pawl", "token");
                check(run(name, "--", "sh", "-c", "echo $PAWL_TOKEN >" + file) == 0, name + ": pawl held it");
                token = Long.parseLong(Files.readString(file).trim());
            } else {
                token = lock.lockAndGetToken();
                lock.unlock();
            }
            check(token > last, name + ": " + (i % 2 == 0 ? "pawl's" : "Redisson's") + " token " + token + " is above " + last);
            last = token;
        }
    }

    static Config config() {
        Config config = new Config();
        String[] addresses = Arrays.stream(entrances).map(port -> "redis://127.0.0.1:" + port).toArray(String[] ::new);
        if (url.startsWith("redis-cluster:"))
            config.useClusterServers().addNodeAddress(addresses).setMasterConnectionMinimumIdleSize(2)
                .setSlaveConnectionMinimumIdleSize(1);
        else if (url.startsWith("redis-sentinel:"))
            config.useSentinelServers().setMasterName("mymaster").addSentinelAddress(addresses).setMasterConnectionMinimumIdleSize(2)
                .setSlaveConnectionMinimumIdleSize(1);
        else
            config.useSingleServer().setAddress(addresses[0]).setConnectionMinimumIdleSize(2);
        config.setSlavesSyncTimeout(PATIENCE_MS); // it waits for replicas after each lock, one second at most
        return config;
    }

    // Both take turns at a file that only the lock protects; neither starves.
    static void count(RLock lock, String name) throws Exception {
        Path file = Files.createTempFile("pawl", "count");
        Files.writeString(file, "0");
        String bump = "n=$(cat " + file + "); echo $((n + 1)) >" + file;
        int rounds = 15;
        List<Process> loops = new ArrayList<>();
        for (int i = 0; i < 3; i++)
            loops.add(new ProcessBuilder("sh", "-c", "for i in $(seq " + rounds + "); do " + pawl + " run -u " + url + " " + name
                                         + " -- sh -c '" + bump + "' || exit 1; done").inheritIO().start());
        for (int i = 0; i < rounds; i++) {
            lock.lock();
            int n = Integer.parseInt(Files.readString(file).trim());
            Files.writeString(file, Integer.toString(n + 1));
            lock.unlock();
        }
        for (Process loop : loops)
            check(loop.waitFor() == 0, name + ": a loop of pawls ended well");
        check(Integer.parseInt(Files.readString(file).trim()) == 4 * rounds, name + ": all " + 4 * rounds + " were counted");
    }

    // A RReadWriteLock enters a mutex that is held, Redisson's own as well; pawl can't keep it out. But its holder is told, and no pawl
    // enters beside it.
    static void entered(RReadWriteLock rw, String name) throws Exception {
        for (RLock lock : List.of(rw.readLock(), rw.writeLock())) {
            Path holds = Files.createTempFile("pawl", "holds");
            Process holder = pawls(new String[] {"--lease", "2"}, name, "--", "sh", "-c", "rm " + holds + "; exec sleep 60").start();
            await(() -> !Files.exists(holds), name + ": pawl holds");
            Process waiting = pawls(new String[] {}, name, "--", "true").start();
            check(lock.tryLock(), name + ": Redisson enters all the same");
            check(holder.waitFor() == 76, name + ": the holder hears of it");
            check(waiting.waitFor() == 65, name + ": who waits is refused");
            check(run("-n", name, "--", "true") == 65, name + ": and so is who tries");
            lock.unlock();
            check(run("-n", name, "--", "true") == 0, name + ": free again");
        }
    }

    public static void main(String[] args) throws Exception {
        pawl = args[0];
        url = args[1];
        entrances = args[2].split(",");
        servers = args[3].split(",");
        RedissonClient redisson = Redisson.create(config());

        excludes(redisson.getLock("mutex"), "mutex");
        excluded(redisson.getLock("mutex"), "mutex");
        count(redisson.getLock("counted"), "counted");
        tokens(redisson.getFencedLock("fenced"), "fenced");

        RReadWriteLock rw = redisson.getReadWriteLock("rw");
        excludes(rw.writeLock(), "rw", "-x");
        excluded(rw.writeLock(), "rw", "-x");
        excluded(rw.readLock(), "rw", "-x");
        excluded(rw.writeLock(), "rw", "-s");
        rw.readLock().lock();
        check(run("-n", "-s", "rw", "--", "true") == 0, "rw: readers of both share");
        check(run("-n", "-x", "rw", "--", "true") == 75, "rw: pawl's writer finds Redisson's reader");
        rw.readLock().unlock();
        entered(redisson.getReadWriteLock("mixed"), "mixed");

        semaphore(redisson.getPermitExpirableSemaphore("sem"));
        redisson.shutdown();
    }
}
