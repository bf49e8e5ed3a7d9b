import { unitTests } from './shared-process.ts';

await unitTests('http');
