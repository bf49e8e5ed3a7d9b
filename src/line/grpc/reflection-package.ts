/** What is used of nice-grpc-server-reflection; a module of its own for the reason in health-package.ts. */
export { ServerReflection, ServerReflectionService } from 'nice-grpc-server-reflection';
