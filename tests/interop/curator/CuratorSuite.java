/* SPDX-License-Identifier: Apache-2.0
 *
 * CuratorSuite - Curator's own tests of its locks, played on pawl, as TAP. Arguments choose the tests whose names contain one of them.
 *
 * The tests come from Curator's jar, as they are. The classes they test are those in this directory, which come first on the class path
 * and stand on libpawl. What does not apply is named in NOT_PAWLS, with the reason.
 */
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

public class CuratorSuite {
    private static final String PACKAGE = "org.apache.curator.framework.recipes.locks.";
    private static final String[] CLASSES = {"TestInterProcessMutex", "TestInterProcessMultiMutex", "TestInterProcessSemaphoreMutex",
        "TestInterProcessReadWriteLock", "TestInterProcessSemaphore", "TestInterProcessSemaphoreCluster"};
    private static final Map<String, String> NOT_PAWLS = Map.of(
        "TestInterProcessMutex.testPersistentLock", "pawl makes its nodes itself, and none that outlive the session",
        "TestInterProcessReadWriteLock.testSetNodeData", "the data of a node is pawl's own",
        "TestInterProcessReadWriteLock.testGetParticipantNodes", "threads of one process share a node",
        "TestInterProcessSemaphore.testAcquireAfterLostServer", "it waits for a step inside Curator",
        "TestInterProcessSemaphore.testThreadedLeaseIncrease", "the limit of a semaphore of pawl's does not change");
    private static int count, failed;

    private static String name(TestIdentifier test) {
        MethodSource source = (MethodSource) test.getSource().get();
        return source.getClassName().substring(PACKAGE.length()) + "." + source.getMethodName();
    }

    private static void say(String status, String name, String more) {
        System.out.println(status + " " + ++count + " - " + name + more);
        System.out.flush();
    }

    private static final TestExecutionListener listener = new TestExecutionListener() {
        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            if (test.isTest())
                say("ok", name(test), " # SKIP Curator leaves it out for this lock");
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (!test.isTest())
                return;
            boolean good = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            if (!good) {
                failed++;
                result.getThrowable().ifPresent(why -> {
                    for (Throwable one = why; one != null; one = one.getCause()) {
                        System.out.println("# " + one.toString().replace("\n", "\n# "));
                        for (StackTraceElement line : one.getStackTrace())
                            if (line.getClassName().startsWith(PACKAGE))
                                System.out.println("#     " + line);
                    }
                });
            }
            say(good ? "ok" : "not ok", name(test), "");
        }
    };

    private static boolean wanted(String name, String[] chosen) {
        for (String one : chosen)
            if (name.contains(one))
                return true;
        return chosen.length == 0;
    }

    public static void main(String[] chosen) throws Exception {
        List<org.junit.platform.engine.DiscoverySelector> selectors = new ArrayList<>();
        for (String one : CLASSES)
            selectors.add(selectClass(PACKAGE + one));
        PostDiscoveryFilter applies = test -> {
            if (!test.isTest() || !(test.getSource().orElse(null) instanceof MethodSource))
                return FilterResult.included("no test");
            String name = name(TestIdentifier.from(test));
            if (!wanted(name, chosen))
                return FilterResult.excluded("not chosen");
            if (!NOT_PAWLS.containsKey(name))
                return FilterResult.included("it applies");
            say("ok", name, " # SKIP " + NOT_PAWLS.get(name));
            return FilterResult.excluded("it does not apply");
        };
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selectors).filters(applies).build();
        LauncherFactory.create().execute(request, listener);
        System.out.println("1.." + count);
        System.out.flush();
        Runtime.getRuntime().halt(failed > 0 ? 1 : 0); // threads of tests may still wait for something
    }
}
