/* SPDX-License-Identifier: Apache-2.0
 *
 * operator.h - what operators ask: on a session, beside the claims.
 */
#ifndef PAWL_ZK_OPERATOR_H
#define PAWL_ZK_OPERATOR_H

#include "engine/zookeeper/session/session.h"

/* As the seam's (engine/engine.h). */
int pawl__zk_survey(struct zk_session *session, const char *name, pawl_visit_fn *visit, void *data, struct pawl_error *reterr);
/* Who holds: by a number of requests that does not grow with those who wait. */
int pawl__zk_look_by(struct zk_session *session, const char *name, pawl_visit_fn *visit, void *data, int64_t deadline,
                     struct pawl_error *reterr);
int pawl__zk_break(struct zk_session *session, const char *name, uint64_t token, bool now, struct pawl_error *reterr);
int pawl__zk_examine(struct zk_session *session, pawl_finding_fn *visit, void *data, struct pawl_error *reterr);

#endif
