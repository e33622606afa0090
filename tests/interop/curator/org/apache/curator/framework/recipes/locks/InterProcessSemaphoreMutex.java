/* SPDX-License-Identifier: Apache-2.0 */
package org.apache.curator.framework.recipes.locks;

import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;

public class InterProcessSemaphoreMutex implements InterProcessLock {
    private final InterProcessSemaphoreV2 semaphore;
    private volatile Lease lease;

    public InterProcessSemaphoreMutex(CuratorFramework client, String path) {
        semaphore = new InterProcessSemaphoreV2(client, path, 1);
    }

    @Override
    public void acquire() throws Exception {
        lease = semaphore.acquire();
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        Lease got = semaphore.acquire(time, unit);
        if (got != null)
            lease = got;
        return got != null;
    }

    @Override
    public void release() throws Exception {
        Lease held = lease;
        if (held == null)
            throw new IllegalStateException("not held");
        lease = null;
        held.close();
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return lease != null;
    }
}
