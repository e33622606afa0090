/* SPDX-License-Identifier: Apache-2.0 */
package org.apache.curator.framework.recipes.locks;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import org.apache.curator.framework.CuratorFramework;

public class InterProcessReadWriteLock {
    private final ReadLock read;
    private final WriteLock write;

    public static class WriteLock extends InterProcessMutex {
        WriteLock(CuratorFramework client, String path, Threads threads) {
            super(client, path, threads, false);
        }

        @Override
        public String getLockPath() {
            return super.getLockPath();
        }
    }

    public static class ReadLock extends InterProcessMutex {
        ReadLock(CuratorFramework client, String path, Threads threads) {
            super(client, path, threads, true);
        }

        @Override
        public String getLockPath() {
            return super.getLockPath();
        }
    }

    public InterProcessReadWriteLock(CuratorFramework client, String path) {
        Threads threads = new Threads(client, path, InterProcessReadWriteLock::make);
        read = new ReadLock(client, path, threads);
        write = new WriteLock(client, path, threads);
    }

    public InterProcessReadWriteLock(CuratorFramework client, String path, byte[] data) {
        throw new UnsupportedOperationException("the data of a node is pawl's own");
    }

    private static Pointer make(Pointer pawl, String name, Pointer error) throws Pawl.Failure {
        PointerByReference made = new PointerByReference();
        Pawl.check(Pawl.CALLS.pawl_rwlock_new(pawl, name, Pawl.TASK, made, error), error);
        return made.getValue();
    }

    public ReadLock readLock() {
        return read;
    }

    public WriteLock writeLock() {
        return write;
    }
}
