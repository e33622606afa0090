/* SPDX-License-Identifier: Apache-2.0
 *
 * socket.h - sockets that never block, and raise no signal.
 */
#ifndef PAWL_SOCKET_H
#define PAWL_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Begin to connect. What was sent is to be acknowledged within `patience_ns`. -1: there is no socket, errno says why. *reterror: why it
 * can't be connected; 0: it is, or will be. */
int pawl__socket_connect(const struct sockaddr_storage *address, socklen_t length, int64_t patience_ns, int *reterror);
/* Has connecting come to an end, good or bad? And which: 0, or the reason. */
bool pawl__socket_decided(int fd);
int pawl__socket_error(int fd);
/* How many bytes; 0: none just now; -1: the end, or broken. */
ssize_t pawl__socket_write(int fd, const void *data, size_t size);
ssize_t pawl__socket_read(int fd, void *buffer, size_t size);
/* Is nothing there to be read, and no end either? */
bool pawl__socket_silent(int fd);
/* Before it is closed: what has not arrived yet shall not arrive any more. */
void pawl__socket_forget(int fd);

#endif
