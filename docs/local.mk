# SPDX-License-Identifier: Apache-2.0
nobase_dist_doc_DATA += \
	docs/architecture.md \
	docs/checkpoints.md \
	docs/generate.md \
	docs/hf.md \
	docs/ini.md \
	docs/oracle.md \
	docs/plan.md \
	docs/tokenizers.md \
	docs/vetting.md \
	docs/writing-plugins.md
