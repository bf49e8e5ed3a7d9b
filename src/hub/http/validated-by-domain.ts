/**
 * Set on the schema of a value whose limits the room behind the route checks again, together with everything else of the
 * request: a fault of such a value alone does not end the request before that, so that all faults are reported at once. On
 * an object: that a field is missing, too.
 */
export const validatedByDomain: unique symbol = Symbol('judgedDeeper');
