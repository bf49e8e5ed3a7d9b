/**
 * What is used of nice-grpc-server-health. In a bundle, import() of a CommonJS package gives its default export alone;
 * import() of this module gives the names.
 */
export { HealthDefinition, HealthServiceImpl, HealthState } from 'nice-grpc-server-health';
