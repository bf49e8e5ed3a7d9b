/**
 * What is used of two CommonJS packages. In a bundle, import() of such a package gives its default export alone; import() of this
 * module gives the names.
 */
export { HealthDefinition, HealthServiceImpl, HealthState } from 'nice-grpc-server-health';
export { ServerReflection, ServerReflectionService } from 'nice-grpc-server-reflection';
