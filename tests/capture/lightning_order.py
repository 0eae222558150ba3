"""A stand-in for `lightning.pytorch` 2.6 where it is not installed: the calls of a fit in their order, and no more."""

import sys
from types import ModuleType, SimpleNamespace

import torch


def _module(name: str, *content: type) -> ModuleType:
    made = ModuleType(f"lightning.pytorch.{name}".rstrip("."))
    vars(made).update({each.__name__: each for each in content})
    sys.modules[made.__name__] = made
    return made


class LightningModule(torch.nn.Module):
    automatic_optimization = True

    def optimizers(self):
        return self.trainer.manual

    def manual_backward(self, loss):
        self.trainer.strategy.backward(loss)

    def log(self, *named):
        self.trainer._logger_connector.log_metrics(named)


class _DataFetcher:
    def __init__(self, loader):
        self.batches = iter(loader)

    def __next__(self):
        return next(self.batches)


class _PrefetchDataFetcher(_DataFetcher):
    def __next__(self):
        return super().__next__()


class Precision:
    def _after_closure(self, trainer):
        self._clip_gradients(trainer)

    def _clip_gradients(self, trainer):
        if trainer.gradient_clip_val and trainer.lightning_module.automatic_optimization:
            torch.nn.utils.clip_grad_norm_(trainer.lightning_module.parameters(), trainer.gradient_clip_val)

    def optimizer_step(self, trainer, optimizer, closure):
        def wrapped():
            result = closure()
            self._after_closure(trainer)
            return result

        optimizer.step(closure=wrapped)


class Strategy:
    def __init__(self, trainer):
        self.trainer, self.precision_plugin = trainer, Precision()

    def batch_to_device(self, batch):
        return batch

    def backward(self, loss):
        loss.backward()

    def optimizer_step(self, optimizer, closure):
        self.precision_plugin.optimizer_step(self.trainer, optimizer, closure)


class SingleDeviceStrategy(Strategy):
    pass


class _LoggerConnector:
    def log_metrics(self, named):
        pass


class _EvaluationLoop:
    def __init__(self, trainer):
        self.trainer, self.loader = trainer, None

    def run(self):
        fetcher = _PrefetchDataFetcher(self.loader)
        for number in range(len(self.loader)):
            self.trainer.lightning_module.validation_step(next(fetcher), number)


class _AutomaticOptimization:
    def __init__(self, trainer):
        self.trainer = trainer

    def _training_step(self, batch, number):
        return self.trainer.lightning_module.training_step(batch, number)

    def run(self, optimizer, batch, number, accumulates):
        def closure():
            loss = self._training_step(batch, number)
            if number % self.trainer.accumulate_grad_batches == 0:
                optimizer.zero_grad()
            self.trainer.strategy.backward(loss)
            return loss

        if accumulates:
            closure()
        else:
            self.trainer.strategy.optimizer_step(optimizer, closure)


class _TrainingEpochLoop:
    def __init__(self, trainer):
        self.trainer, self.max_steps, self.global_step, self._batches_that_stepped = trainer, trainer.max_steps, 0, 0
        self.automatic_optimization, self.val_loop = _AutomaticOptimization(trainer), _EvaluationLoop(trainer)
        self.number = 0

    def run(self, fetcher, batches):
        for self.number in range(batches):
            if self.trainer.should_stop:
                break
            self.advance(fetcher)
            self.on_advance_end(fetcher)

    def advance(self, fetcher):
        batch = self.trainer.strategy.batch_to_device(next(fetcher))
        if self.trainer.lightning_module.automatic_optimization:
            self.automatic_optimization.run(self.trainer.optimizers[0], batch, self.number, self._accumulates())
            self.global_step += not self._accumulates()
        else:
            self.trainer.lightning_module.training_step(batch, self.number)

    def _accumulates(self):
        return (self.number + 1) % self.trainer.accumulate_grad_batches != 0

    def on_advance_end(self, fetcher):
        self._batches_that_stepped += not self._accumulates()
        if self.val_loop.loader is not None and (self.number + 1) % self.trainer.val_check_batch == 0:
            self.val_loop.run()


class _FitLoop:
    def __init__(self, trainer):
        self.trainer, self.epoch_loop, self.max_epochs = trainer, _TrainingEpochLoop(trainer), trainer.max_epochs

    def run(self, loader):
        self.max_batches, self._combined_loader = len(loader), SimpleNamespace(flattened=[loader])
        self.on_run_start()
        self.epoch_loop.run(_PrefetchDataFetcher(loader), self.max_batches)

    def on_run_start(self):
        pass


class Trainer:
    loggers, checkpoint_callbacks, num_devices, num_nodes, precision = (), (), 1, 1, "32-true"
    check_val_every_n_epoch = None

    def __init__(self, max_epochs=1, max_steps=-1, accumulate_grad_batches=1, gradient_clip_val=None, **more):
        self.max_epochs, self.max_steps, self.log_every_n_steps = max_epochs, max_steps, 50
        self.accumulate_grad_batches, self.gradient_clip_val = accumulate_grad_batches, gradient_clip_val
        self.should_stop, self.val_check_batch = False, more.get("val_check_interval")
        self.strategy, self._logger_connector = SingleDeviceStrategy(self), _LoggerConnector()
        self.fit_loop = _FitLoop(self)

    @property
    def global_step(self):
        return self.fit_loop.epoch_loop.global_step

    @property
    def enable_validation(self):
        return self.fit_loop.epoch_loop.val_loop.loader is not None

    def fit(self, model, loader, validation=None):
        self.lightning_module, model.trainer = model, self
        made = model.configure_optimizers()
        self.optimizers = made if isinstance(made, list) else [made]
        self.manual = [_Counting(self, each) for each in self.optimizers]
        self.fit_loop.epoch_loop.val_loop.loader = validation
        self.fit_loop.run(loader)

    def save_checkpoint(self, path):
        torch.save(self.lightning_module.state_dict(), path)


class _Counting:
    """LightningOptimizer, of manual optimization."""

    def __init__(self, trainer, optimizer):
        self.trainer, self.optimizer, self.zero_grad = trainer, optimizer, optimizer.zero_grad

    def step(self):
        self.trainer.strategy.optimizer_step(self.optimizer, lambda: None)
        self.trainer.fit_loop.epoch_loop.global_step += 1


sys.modules["lightning"] = ModuleType("lightning")
sys.modules["lightning"].pytorch = _module("", LightningModule, Trainer)
_module("loops.fetchers", _DataFetcher, _PrefetchDataFetcher)
_module("loops.optimization.automatic", _AutomaticOptimization)
_module("loops.evaluation_loop", _EvaluationLoop)
_module("loops.fit_loop", _FitLoop)
_module("loops.training_epoch_loop", _TrainingEpochLoop)
_module("trainer.connectors.logger_connector.logger_connector", _LoggerConnector)
_module("trainer.trainer", Trainer)
_module("strategies.strategy", Strategy)
_module("plugins.precision.precision", Precision)
