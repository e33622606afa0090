/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - TLS by OpenSSL (openssl.h) over a non-blocking socket. The server's certificate is verified, with its name, unless the
 * URL says verify=none.
 */
#include "os/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"

static int fail_tls(struct pawl_error *reterr, int code, const char *what, const char *file) {
    char text[160];

    ERR_error_string_n(ERR_get_error(), text, sizeof text);
    ERR_clear_error();
    return pawl__fail(reterr, code, "%s '%.200s' can't be used: %s", what, file, text);
}

/* Called where the server asks for a certificate and we have none. It may only wish for one: so that is remembered, and told if it ends the
 * connection. */
static int was_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key) {
    static char asked;

    (void)certificate;
    (void)key;
    SSL_set_app_data(ssl, &asked);
    return 0;
}

static int load_certificates(SSL_CTX *context, const struct tls_options *tls, struct pawl_error *reterr) {
    if (tls->ca[0] && SSL_CTX_load_verify_file(context, tls->ca) != 1)
        return fail_tls(reterr, PAWL_EACCES, "the file of certificates", tls->ca);
    if (!tls->ca[0])
        SSL_CTX_set_default_verify_paths(context);
    if (tls->cert[0] && SSL_CTX_use_certificate_chain_file(context, tls->cert) != 1)
        return fail_tls(reterr, PAWL_EACCES, "the client certificate", tls->cert);
    if (tls->key[0] && SSL_CTX_use_PrivateKey_file(context, tls->key, SSL_FILETYPE_PEM) != 1)
        return fail_tls(reterr, PAWL_EACCES, "the client certificate's key", tls->key);
    return 0;
}

int pawl__tls_setup(const struct tls_options *tls, SSL_CTX **ret, struct pawl_error *reterr) {
    int rc;

    if (!tls->on)
        return 0;
    if ((rc = pawl__openssl_load(reterr)) < 0)
        return rc;
    *ret = SSL_CTX_new(TLS_client_method());
    if (!*ret)
        return fail_tls(reterr, PAWL_ESYSTEM, "TLS", "OpenSSL");
    SSL_CTX_set_min_proto_version(*ret, TLS1_2_VERSION);
    SSL_CTX_set_verify(*ret, tls->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_client_cert_cb(*ret, was_asked);
    SSL_CTX_set_mode(*ret, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return load_certificates(*ret, tls, reterr);
}

/* OpenSSL's own way to write to a socket raises SIGPIPE, and callers' threads write here too: so it gets another one. */

static int bio_write(BIO *bio, const char *data, int size) {
    ssize_t n = send((int)(intptr_t)BIO_get_data(bio), data, (size_t)size, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *data, int size) {
    ssize_t n = recv((int)(intptr_t)BIO_get_data(bio), data, (size_t)size, 0);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *data) {
    (void)bio;
    (void)number;
    (void)data;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_method(void) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pawl socket");
    if (!method)
        return;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_ctrl);
}

static bool attach(SSL *ssl, int fd) {
    BIO *bio;

    pthread_once(&once, make_method);
    bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return false;
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return true;
}

SSL *pawl__tls_new(SSL_CTX *context, const struct tls_options *tls, const char *host, int fd) {
    const char *name = tls->name[0] ? tls->name : host;
    struct in6_addr address;
    SSL *ssl = SSL_new(context);
    bool ok;

    if (!ssl)
        return NULL;
    if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    else
        ok = SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
    if (!ok || !attach(ssl, fd)) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_connect_state(ssl);
    return ssl;
}

/* 0: more is to come first; -1: it is over. */
static int result_of(SSL *ssl, int rc, bool *retwrites) {
    int error = SSL_get_error(ssl, rc);

    *retwrites = error == SSL_ERROR_WANT_WRITE;
    return error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ ? 0 : -1;
}

int pawl__tls_handshake(SSL *ssl, bool *retwrites) {
    int rc = SSL_do_handshake(ssl);

    return rc == 1 ? 1 : result_of(ssl, rc, retwrites);
}

ssize_t pawl__tls_write(SSL *ssl, const void *data, size_t size, bool *retwrites) {
    int n = SSL_write(ssl, data, size > INT32_MAX ? INT32_MAX : (int)size);

    return n > 0 ? n : result_of(ssl, n, retwrites);
}

ssize_t pawl__tls_read(SSL *ssl, void *buffer, size_t size, bool *retwrites) {
    int n = SSL_read(ssl, buffer, (int)size);

    return n > 0 ? n : result_of(ssl, n, retwrites);
}

/* A certificate is what failed: the server's, or ours, of which it tells by an alert, unless the alert is lost with the connection. */
int pawl__tls_error(SSL *ssl, bool worked, char *ret, size_t size) {
    long verified = SSL_get_verify_result(ssl);
    unsigned long error = ERR_get_error();
    char words[160] = "";

    if (error)
        ERR_error_string_n(error, words, sizeof words);
    ERR_clear_error();
    if (verified != X509_V_OK && SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE) {
        snprintf(ret, size, "TLS failed: the server's certificate does not pass: %s", X509_verify_cert_error_string(verified));
        return PAWL_EACCES;
    }
    if (strstr(words, "alert") && strstr(words, "certificate")) {
        snprintf(ret, size, "TLS failed: the server wants another client certificate: write ?cert= and &key= (%s)", words);
        return PAWL_EACCES;
    }
    if (!worked && SSL_get_app_data(ssl)) {
        snprintf(ret, size, "the server asked for a client certificate and closed the connection: write ?cert= and &key=");
        return PAWL_EACCES;
    }
    snprintf(ret, size, words[0] ? "TLS failed: %s" : "the server closed the connection", words);
    return PAWL_ECONNLOST;
}
