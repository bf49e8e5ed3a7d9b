/**
 * Set on the schema of a value whose limits the reference data checks again, together with everything else of the
 * request: a fault of such a value alone does not end the request before that, so that all faults are told at once.
 */
export const judgedDeeper: unique symbol = Symbol('judgedDeeper');
