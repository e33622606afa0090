// SPDX-License-Identifier: Apache-2.0
//
// Redisson and pawl on the same locks: each excludes the other, wakes the other, and reads the other's keys. Arguments: pawl, URL, port.
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.config.Config;

public class Interop {
    static String pawl, url;

    static Process start(String... args) throws Exception {
        List<String> command = new ArrayList<>(List.of(pawl, "run", "-u", url));
        command.addAll(List.of(args));
        return new ProcessBuilder(command).inheritIO().start();
    }

    static int run(String... args) throws Exception {
        return start(args).waitFor();
    }

    static void check(boolean ok, String what) {
        if (!ok)
            throw new AssertionError(what);
        System.out.println("# " + what);
    }

    static void excludes(RLock lock, String name, String... how) throws Exception {
        List<String> tries = new ArrayList<>(List.of("-n")), waits = new ArrayList<>();
        for (String one : how) {
            tries.add(one);
            waits.add(one);
        }
        tries.addAll(List.of(name, "--", "true"));
        waits.addAll(List.of(name, "--", "true"));
        lock.lock();
        lock.lock(); // count 2
        check(run(tries.toArray(new String[0])) == 75, name + ": pawl finds Redisson's hold");
        Process waiting = start(waits.toArray(new String[0]));
        Thread.sleep(300);
        lock.unlock();
        Thread.sleep(200);
        check(waiting.isAlive(), name + ": one of two unlocks frees nothing");
        long begin = System.nanoTime();
        lock.unlock();
        check(waiting.waitFor() == 0, name + ": Redisson's unlock wakes pawl");
        System.out.println("# after " + (System.nanoTime() - begin) / 1000000 + " ms");
    }

    // pawl holds while Redisson tries and waits.
    static void excluded(RLock lock, String name, String... how) throws Exception {
        Path flag = Files.createTempFile("pawl", "flag");
        List<String> holds = new ArrayList<>(List.of(how));
        holds.addAll(List.of(name, "--", "sh", "-c", "rm " + flag + "; sleep 1"));
        Process holder = start(holds.toArray(new String[0]));
        while (Files.exists(flag))
            Thread.sleep(5);
        check(!lock.tryLock(), name + ": Redisson finds pawl's hold");
        long begin = System.nanoTime();
        check(lock.tryLock(20, TimeUnit.SECONDS), name + ": pawl's release wakes Redisson");
        System.out.println("# after " + (System.nanoTime() - begin) / 1000000 + " ms");
        lock.unlock();
        check(holder.waitFor() == 0, name + ": pawl lost nothing");
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

    public static void main(String[] args) throws Exception {
        pawl = args[0];
        url = args[1];
        Config config = new Config();
        String address = "redis://127.0.0.1:" + args[2];
        if (url.startsWith("redis-cluster:"))
            config.useClusterServers().addNodeAddress(address).setMasterConnectionMinimumIdleSize(2);
        else
            config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(2);
        RedissonClient redisson = Redisson.create(config);

        RFencedLock fenced = redisson.getFencedLock("fenced");
        excludes(redisson.getLock("mutex"), "mutex");
        excluded(redisson.getLock("mutex"), "mutex");
        count(redisson.getLock("counted"), "counted");
        check(run("fenced", "--", "true") == 0, "fenced: pawl held it");
        long ours = Long.parseLong(redisson.getBucket("redisson_lock_token:{fenced}", org.redisson.client.codec.StringCodec.INSTANCE)
                                       .get().toString());
        long theirs = fenced.lockAndGetToken();
        check(theirs > ours, "fenced: Redisson's token is above pawl's");
        fenced.unlock();

        RReadWriteLock rw = redisson.getReadWriteLock("rw");
        excludes(rw.writeLock(), "rw", "-x");
        excluded(rw.writeLock(), "rw", "-x");
        excluded(rw.readLock(), "rw", "-x");
        excluded(rw.writeLock(), "rw", "-s");
        rw.readLock().lock();
        check(run("-n", "-s", "rw", "--", "true") == 0, "rw: readers of both share");
        check(run("-n", "-x", "rw", "--", "true") == 75, "rw: pawl's writer finds Redisson's reader");
        rw.readLock().unlock();

        RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore("sem");
        semaphore.trySetPermits(2);
        String permit = semaphore.acquire(30, TimeUnit.SECONDS);
        check(run("-n", "--permits", "2/2", "sem", "--", "true") == 75, "sem: pawl sees Redisson's permit");
        check(run("-n", "--permits", "1/2", "sem", "--", "true") == 0, "sem: and takes the other");
        semaphore.release(permit);
        check(run("-n", "--permits", "2/2", "sem", "--", "true") == 0, "sem: both are free");
        check(semaphore.availablePermits() == 2, "sem: Redisson counts them all");
        redisson.shutdown();
    }
}
