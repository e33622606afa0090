/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper.c - see zookeeper.h.
 */
#include "zookeeper.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static const char jar[] = "/usr/share/java/zookeeper.jar";

enum { OPTIONS = 32 };

const char *zookeeper_missing(void) {
    if (has_command("java") && access(jar, R_OK) == 0)
        return NULL;
    return "there is no ZooKeeper (Debian: zookeeper, default-jre-headless)";
}

bool zookeeper_configure(const char *directory, int index, const char *address, unsigned port, const char *lines) {
    char data[PATH_MAX];

    snprintf(data, sizeof data, "%s/data", directory);
    mkdir(data, 0700);
    return write_file(data, "myid", "%d\n", index + 1) &&
           write_file(directory, "log4j.properties",
                      "log4j.rootLogger=WARN, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\n"
                      "log4j.appender.A.layout=org.apache.log4j.PatternLayout\n"
                      "log4j.appender.A.layout.ConversionPattern=%%d %%p %%c %%m%%n\n") &&
           write_file(directory, "zoo.cfg",
                      "tickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir=%s\nclientPort=%u\nclientPortAddress=%s\n"
                      "maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nadmin.enableServer=false\n"
                      "4lw.commands.whitelist=*\n%s\n",
                      data, port, address, lines);
}

void zookeeper_become(const char *directory, const char *const *options) {
    const char *arguments[OPTIONS] = {"java",
                                      "-Xmx256m",
                                      "-XX:+UseSerialGC",
                                      "-XX:TieredStopAtLevel=1",
                                      "-Dzookeeper.jmx.log4j.disable=true",
                                      "-Dzookeeper.preAllocSize=1024"};
    char path[PATH_MAX + 256], config[PATH_MAX];
    int count = 6;

    snprintf(path, sizeof path, "%s:%s:/usr/share/java/slf4j-log4j12.jar:/usr/share/java/log4j-1.2.jar", directory, jar);
    snprintf(config, sizeof config, "%s/zoo.cfg", directory);
    while (*options != NULL && count < OPTIONS - 5)
        arguments[count++] = *options++;
    arguments[count++] = "-cp";
    arguments[count++] = path;
    arguments[count++] = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    arguments[count++] = config;
    execvp("java", (char *const *)arguments);
}

void zookeeper_mode(const char *address, unsigned port, char *ret, size_t size) {
    char answer[4096];
    const char *mode = ask_at(address, port, "srvr", NULL, answer, sizeof answer) ? strstr(answer, "Mode: ") : NULL;

    snprintf(ret, size, "%.*s", mode != NULL ? (int)strcspn(mode + 6, "\r\n") : 0, mode != NULL ? mode + 6 : "");
}
