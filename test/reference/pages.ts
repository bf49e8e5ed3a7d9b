/** The pages of the reference, by the file that holds each. */
import { prometheusRules } from './alerts-page.ts';
import { cliPage } from './cli-page.ts';
import { configPage, examplePage } from './config-page.ts';
import { exitStatusPage } from './exit-page.ts';
import { grpcPage } from './grpc-page.ts';
import { httpPage } from './http-page.ts';
import { metricsPage } from './metrics-page.ts';
import type { Page } from './page.ts';
import { deliverySchemaPage } from './schema-page.ts';
import { screenPicture } from './screen-picture.ts';
import { setupPage } from './setup-page.ts';

export const pages: Readonly<Record<string, () => Page | Promise<Page>>> = {
  'docs/reference/grpc.md': grpcPage,
  'docs/reference/http.md': httpPage,
  'docs/reference/config.md': configPage,
  'systemd/lineside.toml': examplePage,
  'docs/reference/cli.md': cliPage,
  'docs/reference/exit-statuses.md': exitStatusPage,
  'docs/reference/metrics-alerts.md': metricsPage,
  'docs/reference/setup-toml.md': setupPage,
  'docs/images/box-screen.svg': screenPicture,
  'proto/webhook-delivery.schema.json': deliverySchemaPage,
  'systemd/monitoring/prometheus-rules.yml': prometheusRules,
};
