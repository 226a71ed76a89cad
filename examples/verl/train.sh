#!/bin/sh
# The judge trained by verl 0.9 with GRPO on R_corr: sh train.sh MODEL DATA [further settings of verl]
# DATA is the folder that judge_task.py wrote. No run on a GPU has been made.
here=$(dirname "$0") model=$1 data=$2
shift 2
exec python -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo algorithm.norm_adv_by_std_in_grpo=true algorithm.use_kl_in_reward=false \
  data.train_files="$data/train.parquet" data.val_files="$data/held-out.parquet" \
  data.train_batch_size=64 data.max_prompt_length=2048 data.max_response_length=512 data.filter_overlong_prompts=true \
  actor_rollout_ref.model.path="$model" actor_rollout_ref.actor.optim.lr=1e-6 \
  actor_rollout_ref.actor.use_kl_loss=true actor_rollout_ref.actor.kl_loss_coef=0.04 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n=8 actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
  reward.custom_reward_function.path="$here/judge_task.py" reward.custom_reward_function.name=compute_score \
  trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.project_name=tal-judge trainer.experiment_name=judge "$@"
