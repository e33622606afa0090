/* SPDX-License-Identifier: Apache-2.0
 *
 * Curator - InterProcessMutex of Apache Curator.
 */
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class Curator {
    private static CuratorFramework connect(String hosts) throws InterruptedException {
        CuratorFramework framework = CuratorFrameworkFactory.newClient(hosts, new ExponentialBackoffRetry(100, 5));
        framework.start();
        framework.blockUntilConnected();
        return framework;
    }

    private static Peer.Client open(String hosts, String lock) throws Exception {
        CuratorFramework framework = connect(hosts);
        InterProcessMutex mutex = new InterProcessMutex(framework, "/" + lock);
        return new Peer.Client() {
            public void acquire() throws Exception {
                mutex.acquire();
            }
            public void release() throws Exception {
                mutex.release();
            }
            public void close() {
                framework.close();
            }
        };
    }

    private static void clean(String hosts) throws Exception {
        CuratorFramework framework = connect(hosts);
        for (String child : framework.getChildren().forPath("/"))
            if (child.startsWith("pawl-bench-peer"))
                framework.delete().quietly().deletingChildrenIfNeeded().forPath("/" + child);
        framework.close();
    }

    public static void main(String[] arguments) throws Exception {
        Peer.run("Curator", arguments[1], lock -> open(arguments[0], lock), () -> clean(arguments[0]));
    }
}
