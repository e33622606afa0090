/* SPDX-License-Identifier: Apache-2.0
 *
 * openssl.h - OpenSSL, loaded when a URL asks for TLS. To be included instead of OpenSSL's own headers.
 *
 * Linked as usual it would be mapped, relocated and set up in every process that links pawl, which takes longer than all that
 * `pawl run` does for a lock on one machine. So each function that is used stands in a table that pawl__openssl_load() fills, and
 * a macro of its name leads there. One that is missing below is a link error.
 */
#ifndef PAWL_OPENSSL_H
#define PAWL_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "pawl.h"

#define OPENSSL_FUNCTIONS(X)                                                                                                       \
    X(BIO_clear_flags)                                                                                                             \
    X(BIO_get_data)                                                                                                                \
    X(BIO_get_new_index)                                                                                                           \
    X(BIO_meth_new)                                                                                                                \
    X(BIO_meth_set_ctrl)                                                                                                           \
    X(BIO_meth_set_read)                                                                                                           \
    X(BIO_meth_set_write)                                                                                                          \
    X(BIO_new)                                                                                                                     \
    X(BIO_set_data)                                                                                                                \
    X(BIO_set_flags)                                                                                                               \
    X(BIO_set_init)                                                                                                                \
    X(ERR_clear_error)                                                                                                             \
    X(ERR_error_string_n)                                                                                                          \
    X(ERR_get_error)                                                                                                               \
    X(SSL_CTX_ctrl)                                                                                                                \
    X(SSL_CTX_free)                                                                                                                \
    X(SSL_CTX_load_verify_file)                                                                                                    \
    X(SSL_CTX_new)                                                                                                                 \
    X(SSL_CTX_set_client_cert_cb)                                                                                                  \
    X(SSL_CTX_set_default_verify_paths)                                                                                            \
    X(SSL_CTX_set_verify)                                                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                                                          \
    X(SSL_ctrl)                                                                                                                    \
    X(SSL_do_handshake)                                                                                                            \
    X(SSL_free)                                                                                                                    \
    X(SSL_get0_param)                                                                                                              \
    X(SSL_get_error)                                                                                                               \
    X(SSL_get_verify_mode)                                                                                                         \
    X(SSL_get_verify_result)                                                                                                       \
    X(SSL_new)                                                                                                                     \
    X(SSL_pending)                                                                                                                 \
    X(SSL_read)                                                                                                                    \
    X(SSL_set1_host)                                                                                                               \
    X(SSL_get_ex_data)                                                                                                             \
    X(SSL_set_bio)                                                                                                                 \
    X(SSL_set_ex_data)                                                                                                             \
    X(SSL_set_connect_state)                                                                                                       \
    X(SSL_write)                                                                                                                   \
    X(TLS_client_method)                                                                                                           \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                                                               \
    X(X509_verify_cert_error_string)

struct openssl {
#define OPENSSL_MEMBER(name) __typeof__(name) *name;
    OPENSSL_FUNCTIONS(OPENSSL_MEMBER)
#undef OPENSSL_MEMBER
};
extern struct openssl pawl__openssl;

/* Once is enough; before any of these is called. PAWL_EUNSUPPORTED: it is not on this machine. */
int pawl__openssl_load(struct pawl_error *reterr);

#ifndef OPENSSL_ITSELF
#define BIO_clear_flags pawl__openssl.BIO_clear_flags
#define BIO_get_data pawl__openssl.BIO_get_data
#define BIO_get_new_index pawl__openssl.BIO_get_new_index
#define BIO_meth_new pawl__openssl.BIO_meth_new
#define BIO_meth_set_ctrl pawl__openssl.BIO_meth_set_ctrl
#define BIO_meth_set_read pawl__openssl.BIO_meth_set_read
#define BIO_meth_set_write pawl__openssl.BIO_meth_set_write
#define BIO_new pawl__openssl.BIO_new
#define BIO_set_data pawl__openssl.BIO_set_data
#define BIO_set_flags pawl__openssl.BIO_set_flags
#define BIO_set_init pawl__openssl.BIO_set_init
#define ERR_clear_error pawl__openssl.ERR_clear_error
#define ERR_error_string_n pawl__openssl.ERR_error_string_n
#define ERR_get_error pawl__openssl.ERR_get_error
#define SSL_CTX_ctrl pawl__openssl.SSL_CTX_ctrl
#define SSL_CTX_free pawl__openssl.SSL_CTX_free
#define SSL_CTX_load_verify_file pawl__openssl.SSL_CTX_load_verify_file
#define SSL_CTX_new pawl__openssl.SSL_CTX_new
#define SSL_CTX_set_default_verify_paths pawl__openssl.SSL_CTX_set_default_verify_paths
#define SSL_CTX_set_client_cert_cb pawl__openssl.SSL_CTX_set_client_cert_cb
#define SSL_CTX_set_verify pawl__openssl.SSL_CTX_set_verify
#define SSL_CTX_use_PrivateKey_file pawl__openssl.SSL_CTX_use_PrivateKey_file
#define SSL_CTX_use_certificate_chain_file pawl__openssl.SSL_CTX_use_certificate_chain_file
#define SSL_ctrl pawl__openssl.SSL_ctrl
#define SSL_do_handshake pawl__openssl.SSL_do_handshake
#define SSL_free pawl__openssl.SSL_free
#define SSL_get0_param pawl__openssl.SSL_get0_param
#define SSL_get_error pawl__openssl.SSL_get_error
#define SSL_get_verify_mode pawl__openssl.SSL_get_verify_mode
#define SSL_get_verify_result pawl__openssl.SSL_get_verify_result
#define SSL_new pawl__openssl.SSL_new
#define SSL_pending pawl__openssl.SSL_pending
#define SSL_read pawl__openssl.SSL_read
#define SSL_set1_host pawl__openssl.SSL_set1_host
#define SSL_get_ex_data pawl__openssl.SSL_get_ex_data
#define SSL_set_bio pawl__openssl.SSL_set_bio
#define SSL_set_ex_data pawl__openssl.SSL_set_ex_data
#define SSL_set_connect_state pawl__openssl.SSL_set_connect_state
#define SSL_write pawl__openssl.SSL_write
#define TLS_client_method pawl__openssl.TLS_client_method
#define X509_VERIFY_PARAM_set1_ip_asc pawl__openssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_verify_cert_error_string pawl__openssl.X509_verify_cert_error_string
#endif

#endif
