/* SPDX-License-Identifier: Apache-2.0
 *
 * Redisson - RLock of Redisson, with its defaults: a lease of 30 s that its watchdog renews.
 */
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Redisson {
    private static RedissonClient connect(String address) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        return org.redisson.Redisson.create(config);
    }

    private static Peer.Client open(RedissonClient redisson, String name) {
        RLock lock = redisson.getLock(name);
        return new Peer.Client() {
            public void acquire() {
                lock.lock();
            }
            public void release() {
                lock.unlock();
            }
            public void close() {
                redisson.shutdown();
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        Peer.run("Redisson", arguments[1], lock -> open(connect(arguments[0]), lock), () -> {
            RedissonClient redisson = connect(arguments[0]);
            redisson.getKeys().deleteByPattern("*pawl-bench-peer*");
            redisson.shutdown();
        });
    }
}
