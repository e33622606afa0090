/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_url.c - any text is a URL or is refused with a sentence; what a URL consists of lies within its own copy.
 */
#include "fuzz.h"

#include <stdbool.h>

#include "base/url.h"

static bool own(const struct pawl__url *url, const char *string) {
    if (!*string)
        return true;
    return string >= url->text && string + strlen(string) < url->text + sizeof url->text;
}

static void check_error(int code, const struct pawl_error *error) {
    CHECK(code == PAWL_EURL || code == PAWL_EOPTION);
    CHECK(error->code == code);
    CHECK(error->text[0] && memchr(error->text, '\0', sizeof error->text));
}

static void check_parts(const struct pawl__url *url) {
    CHECK(url->scheme[0] && own(url, url->scheme));
    CHECK(!url->user || own(url, url->user));
    CHECK(!url->password || own(url, url->password));
    CHECK(own(url, url->path));
    CHECK(url->host_count <= PAWL__URL_HOSTS && url->option_count <= PAWL__URL_OPTIONS);
    for (size_t i = 0; i < url->host_count; i++)
        CHECK(url->hosts[i].name[0] && own(url, url->hosts[i].name) && url->hosts[i].port <= 65535);
    for (size_t i = 0; i < url->option_count; i++)
        CHECK(url->options[i].key[0] && own(url, url->options[i].key) && own(url, url->options[i].value));
}

static void check_options(struct pawl__url *url) {
    struct pawl_error error;
    int rc = pawl__url_leftover(url, &error);

    CHECK((rc == 0) == (url->option_count == 0));
    if (rc)
        check_error(rc, &error);
    for (size_t i = 0; i < url->option_count; i++) {
        long long number = 7;

        rc = pawl__url_number(url, url->options[i].key, -3, 1000, &number, &error);
        CHECK(number >= -3 && number <= 1000);
        if (rc)
            check_error(rc, &error);
    }
    CHECK(pawl__url_leftover(url, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char schemes[] = "local redis rediss zk";
    static struct pawl__url url;
    struct pawl_error error;
    char near[16];
    char *text = fuzz_copy(data, size, 1);
    int rc = pawl__url_parse(text, &url, &error);

    CHECK(pawl__url_parse(text, &url, NULL) == rc);
    if (rc) {
        check_error(rc, &error);
    } else {
        check_parts(&url);
        check_options(&url);
        if (pawl__nearest(url.scheme, schemes, near, sizeof near))
            CHECK(near[0] && strstr(schemes, near));
    }
    free(text);
    return 0;
}
