/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_record.c - any bytes are a record or are foreign; what was read can be written, and reads the same again.
 */
#include "fuzz.h"

#include "base/record.h"

static void check_string(const char *string, size_t size) {
    CHECK(memchr(string, '\0', size));
    for (; *string; string++)
        CHECK((unsigned char)*string >= ' ' && *string != 0x7f);
}

static void check_identity(const struct pawl__identity *identity) {
    check_string(identity->host, sizeof identity->host);
    check_string(identity->command, sizeof identity->command);
    check_string(identity->label, sizeof identity->label);
    CHECK(!*identity->agent || pawl__agent_is(identity->agent));
    CHECK(!*identity->around || pawl__agent_is(identity->around));
    CHECK(identity->lease_ms >= 0);
}

static void check_again(const struct pawl__identity *identity) {
    struct pawl__identity again;
    char buffer[PAWL__RECORD_MAX], put[PAWL__RECORD_MAX];
    size_t length = pawl__record_format(identity, buffer, sizeof buffer);

    CHECK(length < sizeof buffer && strlen(buffer) == length);
    CHECK(pawl__record_parse(buffer, length, &again));
    CHECK(strcmp(again.host, identity->host) == 0);
    CHECK(strcmp(again.command, identity->command) == 0);
    CHECK(strcmp(again.label, identity->label) == 0);
    CHECK(strcmp(again.agent, identity->agent) == 0);
    CHECK(strcmp(again.around, identity->around) == 0);
    CHECK(again.pid == identity->pid && again.lease_ms == identity->lease_ms);
    CHECK(pawl__record_put(put, buffer, identity->label) == put + length && strcmp(put, buffer) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct pawl__identity nobody;
    struct pawl__identity identity;
    char *text = fuzz_copy(data, size, 0);

    if (pawl__record_parse(text, size, &identity)) {
        check_identity(&identity);
        check_again(&identity);
    } else {
        CHECK(memcmp(&identity, &nobody, sizeof nobody) == 0);
    }
    free(text);
    return 0;
}
