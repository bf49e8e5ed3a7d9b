/** The pages of the reference, by the file that holds each. */
import { prometheusRules } from './alerts-page.ts';
import { cliPage } from './cli-page.ts';
import { configPage, examplePage } from './config-page.ts';
import { grpcPage } from './grpc-page.ts';
import { httpPage } from './http-page.ts';
import { metricsPage } from './metrics-page.ts';
import type { Page } from './page.ts';

export const pages: Readonly<Record<string, () => Page | Promise<Page>>> = {
  'proto/reference.md': grpcPage,
  'src/hub/http/reference.md': httpPage,
  'src/shared/config/reference.md': configPage,
  'systemd/lineside.toml': examplePage,
  'src/cli/reference.md': cliPage,
  'systemd/reference.md': metricsPage,
  'systemd/monitoring/prometheus-rules.yml': prometheusRules,
};
