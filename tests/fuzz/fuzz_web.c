/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_web.c - any body is a break or is refused with a sentence; any request is judged, and none gets past the gate without the key and a
 * host of ours.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <strings.h>

#include "../../cli/http/gate.h"
#include "../../cli/web/breaking.h"

#define KEY "0123456789abcdef0123456789abcdef"

static void check_breaking(const char *body, size_t length) {
    static struct breaking what;
    const char *wrong = breaking_read(body, length, &what);

    if (wrong != NULL) {
        CHECK(wrong[0] != '\0');
        return;
    }
    CHECK(what.url[0] && memchr(what.url, '\0', sizeof what.url));
    CHECK(what.name[0] && memchr(what.name, '\0', sizeof what.name));
    CHECK(what.token != 0);
}

/* The lines of the text are what the request says of itself. */
static const char *line(char **rest) {
    return *rest != NULL ? strsep(rest, "\n") : NULL;
}

static void check_gate(char *text, bool any_port) {
    struct gate gate = {.key = KEY, .any_port = any_port};
    struct asked asked = {.flags = ROUTE_PRIVATE, .hosts = 1, .authorizations = 1};

    CHECK(gate_add_own(&gate, "localhost", 7295));
    asked.host = line(&text);
    asked.authorization = line(&text);
    asked.site = line(&text);
    asked.length = line(&text);
    unsigned status = gate_judge(&gate, &asked);
    CHECK(status == 0 || (status >= 400 && status < 500));
    if (status == 0) {
        CHECK(strncasecmp(asked.host, "localhost", 9) == 0 && (asked.host[9] == ':' || (any_port && asked.host[9] == '\0')));
        CHECK(strstr(asked.authorization, KEY) != NULL);
        CHECK(asked.length == NULL || asked.length[strspn(asked.length, "0")] == '\0');
    }
    gate_finish(&gate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_copy(data, size, 1);

    check_breaking(text, size);
    check_gate(text, size % 2 == 0);
    free(text);
    return 0;
}
