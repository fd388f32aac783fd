#include "cli/command_line.h"

#include <algorithm>
#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/collective.h"
#include "cli/doctor.h"
#include "cli/files.h"
#include "cli/import.h"
#include "cli/launched.h"
#include "cli/plan.h"
#include "cli/replay.h"
#include "cli/search.h"
#include "cli/shared_options.h"
#include "cli/simulate.h"
#include "cli/topology.h"
#include "cli/train.h"
#include "cli/validate.h"
#include "model/diagnostic.h"
#include "sim/lone_collective.h"

namespace megatwin::cli {
namespace {

constexpr const char* kExamples =
    "\nExamples:\n"
    "  megatwin simulate scenarios/llama-3.1-70b-h100.yaml\n"
    "  megatwin simulate job.yaml --set plan.tensor=4 --json\n"
    "  megatwin simulate job.yaml --sweep plan.pipeline=2,4,8 --html out/sweep.html\n"
    "  megatwin train scenarios/train-tiny-llama.yaml --set data.text=book.txt\n"
    "  megatwin doctor\n"
    "\nExit codes: 0 an answer, 1 the plan is illegal or does not fit, 2 the input cannot be "
    "read,\n"
    "3 the machine failed (disk, driver, a rank), 134 a bug of ours.\n";

constexpr const char* kSimulateExamples =
    "\nExamples:\n"
    "  megatwin simulate job.yaml --explain\n"
    "  megatwin simulate a.yaml b.yaml                          side by side\n"
    "  megatwin simulate job.yaml --sweep 'cluster.nodes[0].count=8,16,32'   scaling curve\n"
    "  megatwin simulate job.yaml --html out/job.html --trace out/job.trace.json\n";

constexpr const char* kValidateExamples =
    "\nExamples:\n"
    "  megatwin validate rows.csv --all\n"
    "  megatwin validate nccl-tests.log --machine dgx-h100\n"
    "  megatwin validate ops.jsonl --gpu H200\n";
constexpr const char* kImportExamples =
    "\nExamples:\n"
    "  megatwin import config.json\n"
    "  megatwin import pretrain_gpt.sh --json\n"
    "  megatwin import nvidia-smi topo.txt\n";
constexpr const char* kTopologyExamples =
    "\nExamples:\n"
    "  megatwin topology show job.yaml --svg cluster.svg\n"
    "  megatwin topology show nccl-topology.xml\n";
constexpr const char* kCollectiveExamples =
    "\nExamples:\n"
    "  megatwin collective all-reduce --cluster job.yaml --size '64 MB' --ranks 64\n"
    "  megatwin collective all-reduce --cluster job.yaml --algorithm sharp --json\n"
    "  megatwin collective all-to-all --cluster job.yaml --ranks 8 --tokens tokens.csv\n";
constexpr const char* kSearchExamples =
    "\nExamples:\n"
    "  megatwin search job.yaml\n"
    "  megatwin search job.yaml --memory-margin 0.05 --export out/best\n"
    "  megatwin search job.yaml --exhaustive --store out/search.db     goes on where it was "
    "killed\n"
    "  mpirun -n 8 megatwin search job.yaml --threads 4         over several processes\n"
    "  megatwin search job.yaml --set 'search={fix: [tensor], micro_batch: [1, 2, 4]}' --json\n";

constexpr const char* kTrainExamples =
    "\nExamples:\n"
    "  megatwin train job.yaml\n"
    "  megatwin train job.yaml --set training.steps=1000 --resume\n"
    "  megatwin train job.yaml --policy dpp-breadth --log out/run.log --trace out/run.json\n"
    "  mpirun -n 4 megatwin train job.yaml                      a process for each of 4 ranks\n"
    "  megatwin simulate job.yaml --replay out/run.log         the same decisions, from the log\n";

constexpr const char* kPlanExamples =
    "\nExamples:\n"
    "  megatwin plan job.yaml\n"
    "  megatwin plan job.yaml --set 'target.budget=5e6 USD' --html out/plan.html\n"
    "  megatwin plan large.yaml small.yaml                      several runs on one cluster\n";

using Action = std::function<int()>;

// Registers options that fill a SimulateArguments which the action owns.
Action add_simulate(CLI::App& app, const World& world, Console& console) {
  CLI::App* command =
      app.add_subcommand("simulate", "Predict step time, memory, MFU and where the time goes");
  auto arguments = std::make_shared<SimulateArguments>();
  command->add_option("files", arguments->files, "Scenario files (YAML)")
      ->required()
      ->check(has_name());
  add_settings(*command, arguments->settings, "Set a key of every file: plan.tensor=4");
  add_policy(*command, arguments->settings);
  command->add_option("--sweep", arguments->sweeps, "Run every value of a key: plan.tensor=2,4,8")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->add_option("--html", arguments->html, "Write a report that stands alone")
      ->check(has_name())
      ->type_name("FILE");
  command->add_option("--trace", arguments->trace, "Write the timeline for ui.perfetto.dev")
      ->check(has_name())
      ->type_name("FILE");
  command->add_flag("--explain", arguments->explain, "List every priced operation");
  command
      ->add_option("--without", arguments->without,
                   "Leave an effect out, to see what it is worth (several with commas)")
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("EFFECT");
  command->add_option("--engine", arguments->engine, "auto, dataflow or events")
      ->check(CLI::IsMember({"auto", "dataflow", "events"}))
      ->type_name("ENGINE");
  auto replay = std::make_shared<std::string>();
  command
      ->add_option("--replay", *replay,
                   "Decide a real run again from the log that train wrote, and simulate its picks")
      ->check(has_name())
      ->type_name("LOG");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kSimulateExamples);
  return [arguments, replay, &world, &console] {
    if (replay->empty()) return simulate_command(*arguments, world, console);
    return replay_command({.file = arguments->files.front(),
                           .settings = arguments->settings,
                           .log = *replay,
                           .json = arguments->json,
                           .json_diagnostics = arguments->json_diagnostics},
                          console);
  };
}

Action add_train(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand("train", "Really train a small model on this machine");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("file", arguments->file, "Scenario file (YAML) with a data section")
      ->required()
      ->check(has_name());
  add_settings(*command, arguments->settings, "Set a key of the file: training.steps=100");
  command->add_option("--backend", arguments->backend, "host: on processors, in fp32")
      ->check(CLI::IsMember({"host"}))
      ->type_name("WORLD");
  CLI::Option* policy = add_policy(*command, arguments->settings);
  CLI::Option* order = command->add_option("--order", arguments->order, "Run the order of a file")
                           ->check(has_name())
                           ->type_name("FILE")
                           ->excludes(policy);
  command->add_flag("--resume", arguments->resume, "Go on from the newest checkpoint");
  command
      ->add_option("--from", arguments->weights_from,
                   "Start from weights of Hugging Face (model.safetensors)")
      ->check(has_name())
      ->type_name("FOLDER");
  command->add_option("--log", arguments->log, "Write every event and decision")
      ->check(has_name())
      ->type_name("FILE");
  command->add_option("--replay", arguments->replay, "Force the picks of a log")
      ->check(has_name())
      ->type_name("LOG")
      ->excludes(policy)
      ->excludes(order);
  command->add_option("--trace", arguments->trace, "Write the timeline for ui.perfetto.dev")
      ->check(has_name())
      ->type_name("FILE");
  command->add_option("--trace-steps", arguments->trace_steps, "Of so many steps")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->add_flag("--print-launch", arguments->print_launch,
                    "Only print the line that starts one process a rank");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kTrainExamples);
  return [arguments, &console] { return train_command(*arguments, console); };
}

Action add_search(CLI::App& app, Console& console) {
  CLI::App* command =
      app.add_subcommand("search", "Find the best plans of thousands, and why the others lost");
  auto arguments = std::make_shared<SearchArguments>();
  command->add_option("file", arguments->file, "Scenario file (YAML)")
      ->required()
      ->check(has_name());
  add_settings(*command, arguments->settings, "Set a key of the file: plan.tensor=4");
  add_memory_margin(*command, arguments->memory_margin);
  command->add_option("--best", arguments->num_best, "How many plans to list")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command->add_option("--losers", arguments->num_losers, "How many of the others to explain")
      ->check(CLI::Range(0, 10'000))
      ->type_name("N");
  add_threads(*command, arguments->num_threads);
  command->add_flag("--mpi", arguments->mpi,
                    "Join the processes that srun started; those of mpirun join by themselves");
  command->add_flag("--exhaustive", arguments->exhaustive,
                    "Evaluate every plan that fits; the answer is the same");
  command
      ->add_option("--check", arguments->check,
                   "How finalists are simulated: events, maxmin or simgrid; else as the file says")
      ->check(CLI::IsMember({"events", "maxmin", "simgrid"}))
      ->type_name("DEPTH");
  command->add_flag("--what-if", arguments->what_if,
                    "Also search with faster links, more memory and more machines");
  command
      ->add_option("--store", arguments->store,
                   "Keep step times in this file, and go on from what it holds")
      ->check(has_name())
      ->type_name("FILE");
  command
      ->add_option("--export", arguments->export_folder,
                   "Write the best plan as a scenario, and as Megatron-LM and Slurm scripts")
      ->check(has_name())
      ->type_name("FOLDER");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kSearchExamples);
  return [arguments, &console] { return search_command(*arguments, console); };
}

Action add_plan(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand(
      "plan", "Say which machines a training run needs, how long, and for how much");
  auto arguments = std::make_shared<PlanArguments>();
  command
      ->add_option("files", arguments->files,
                   "Scenario files (YAML) with a target section; several share the first's cluster")
      ->required()
      ->check(has_name());
  add_settings(*command, arguments->settings, "Set a key of the file: target.deadline=30 d");
  add_memory_margin(*command, arguments->memory_margin);
  add_threads(*command, arguments->num_threads);
  command->add_flag("--mixes", arguments->mixes, "Also two kinds of machines in one job");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->add_option("--html", arguments->html, "Write a page that stands alone")
      ->check(has_name())
      ->type_name("FILE");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kPlanExamples);
  return [arguments, &console] { return plan_command(*arguments, console); };
}

Action add_validate(CLI::App& app, Console& console) {
  CLI::App* command =
      app.add_subcommand("validate", "Hold predictions against published measurements");
  auto arguments = std::make_shared<ValidateArguments>();
  command
      ->add_option("rows", arguments->file,
                   "Measured steps (.csv), operations (.jsonl), or collectives: a log of "
                   "nccl-tests (.log, .txt), a table of microbenchmarks (.csv)")
      ->required()
      ->check(has_name());
  command->add_option("--machine", arguments->machine, "On which the collectives were measured")
      ->type_name("NODE");
  command->add_option("--gpu", arguments->gpu, "On which the operations of a .jsonl were measured")
      ->type_name("GPU");
  command
      ->add_option("--apart", arguments->apart,
                   "Groups to list but leave out of mean and coverage (several with commas)")
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GROUP");
  command->add_option("--without", arguments->without, "Leave an effect out of every prediction")
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("EFFECT");
  command
      ->add_option("--leave-out", arguments->leave_out,
                   "Set constants that were read off this group's steps to their neutral values")
      ->delimiter(',')
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GROUP");
  command->add_flag("--leave-each-out", arguments->leave_each_out,
                    "The same for each group in turn, with the group's own error");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  command->add_flag("--all", arguments->all, "List every row, not only the worst ten");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kValidateExamples);
  return [arguments, &console] { return validate_command(*arguments, console); };
}

Action add_import(CLI::App& app, Console& console) {
  CLI::App* command = app.add_subcommand(
      "import",
      "Say what a description of somebody else holds (Hugging Face, Megatron-LM, NeMo, Primus)");
  auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("file", arguments->words,
                   "FILE, or its kind (hf, megatron, nemo, primus, or a network's) and FILE")
      ->required()
      ->check(has_name());
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kImportExamples);
  return [arguments, &console] { return import_command(*arguments, console); };
}

Action add_topology(CLI::App& app, const World& world, Console& console) {
  CLI::App* command = app.add_subcommand("topology", "See a cluster's GPUs, switches and cables");
  command->require_subcommand(1);
  command->footer(kTopologyExamples);  // Of `show`, too.
  CLI::App* show = command->add_subcommand("show", "As text, and as a picture");
  auto arguments = std::make_shared<TopologyArguments>();
  show->add_option(
          "file", arguments->file,
          "A scenario (YAML), NCCL XML, nvidia-smi topo -m, ibnetdiscover or topology.conf")
      ->required()
      ->check(has_name());
  show->add_option("--set", arguments->settings, "Set a key of the scenario: cluster.nodes=4")
      ->take_all()
      ->allow_extra_args(false);
  show->add_option("--svg", arguments->svg, "Write the picture")
      ->check(has_name())
      ->type_name("FILE");
  show->add_flag("--json", arguments->json, "One JSON object on stdout: vertices and links");
  add_diagnostics(*show, arguments->json_diagnostics);
  return [arguments, &world, &console] { return topology_command(*arguments, world, console); };
}

Action add_collective(CLI::App& app, const World& world, Console& console) {
  CLI::App* command = app.add_subcommand(
      "collective", "Run one collective alone over a cluster's links, by an algorithm of choice");
  auto arguments = std::make_shared<CollectiveArguments>();
  command->add_option("kind", arguments->kind, "all-reduce, all-gather, reduce-scatter, all-to-all")
      ->required()
      ->check(CLI::IsMember(collective_kind_names()));
  command->add_option("--cluster", arguments->file, "Scenario file (YAML) whose cluster it runs on")
      ->required()
      ->check(has_name())
      ->type_name("FILE");
  add_settings(*command, arguments->settings, "Set a key of the file: cluster.fabric.sharp=true");
  command->add_option("--size", arguments->size, "As nccl-tests prints it: 64 MB")
      ->type_name("SIZE");
  command
      ->add_option("--ranks", arguments->ranks, "The first so many, or 0-7,16-23; else every GPU")
      ->check([](const std::string& ranks) {
        return ranks.empty() ? std::string("names no ranks; allowed: 64, 0-7 or 0,8,16") : "";
      })
      ->type_name("RANKS");
  command->add_option("--algorithm", arguments->algorithm, "auto: the closed form's choice")
      ->check(CLI::IsMember(sim::lone_algorithm_names()));
  command->add_option("--network", arguments->network, "maxmin, simgrid or analytic")
      ->check(CLI::IsMember({"maxmin", "simgrid", "analytic"}))
      ->type_name("NETWORK");
  command
      ->add_option("--tokens", arguments->tokens,
                   "All-to-all: a CSV file of what each rank sends to each, in any unit")
      ->check(has_name())
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "One JSON object on stdout");
  add_diagnostics(*command, arguments->json_diagnostics);
  command->footer(kCollectiveExamples);
  return [arguments, &world, &console] { return collective_command(*arguments, world, console); };
}

Action add_doctor(CLI::App& app, Console& console) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say what this machine has, and how to get what is missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->footer("");
  return [json, &console] { return doctor_command(*json, console); };
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// A word that is neither a command nor an option of it, with the nearest that is.
model::Diagnostic unknown_word(const CLI::App& app, const std::string& word) {
  const auto parsed = app.get_subcommands();
  if (parsed.empty() && word[0] != '-') {
    const std::vector<std::string> names = command_names(app);
    const std::string near = model::nearest_word(word, names);
    return {.message = "unknown command '" + word + "'",
            .allowed = join(names) + (near.empty() ? "" : "; did you mean '" + near + "'?")};
  }
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  std::vector<std::string> options;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  const std::string near = model::nearest_word(word, options);
  const std::string of = parsed.empty() ? "" : " of " + command.get_name();
  return {.message = "unknown option '" + word + "'" + of,
          .allowed = join(options) + (near.empty() ? "" : "; did you mean '" + near + "'?")};
}

int complain(const CLI::App& app, const CLI::ParseError& error,
             const std::vector<std::string>& words, Console& console) {
  model::Diagnostic diagnostic{.file = "megatwin", .message = error.what()};
  const auto parsed = app.get_subcommands();
  const std::vector<std::string> extra = app.remaining(true);
  if (parsed.empty() && words.empty()) {
    diagnostic.message = "no command is given";
    diagnostic.allowed = join(command_names(app));
  } else if (parsed.empty() || (dynamic_cast<const CLI::ExtrasError*>(&error) && !extra.empty())) {
    diagnostic = unknown_word(app, parsed.empty() ? words.front() : extra.front());
    diagnostic.file = "megatwin";
  }
  console.err << model::to_text(diagnostic) << "  see: megatwin "
              << (parsed.empty() ? "" : parsed.front()->get_name() + " ") << "--help\n";
  return kExitBadInput;
}

int dispatch(const std::vector<std::string>& words, const World& world, Console& console) {
  CLI::App app("Megatwin predicts how fast a GPU cluster trains a language model, and why.",
               "megatwin");
  app.set_version_flag("--version", "megatwin " MEGATWIN_VERSION);
  app.footer(kExamples);
  app.require_subcommand(1);
  const std::vector<std::pair<const char*, Action>> actions = {
      {"simulate", add_simulate(app, world, console)},
      {"search", add_search(app, console)},
      {"train", add_train(app, console)},
      {"plan", add_plan(app, console)},
      {"validate", add_validate(app, console)},
      {"import", add_import(app, console)},
      {"topology", add_topology(app, world, console)},
      {"collective", add_collective(app, world, console)},
      {"doctor", add_doctor(app, console)}};
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 pops from the back.
    app.parse(std::move(reversed));
  } catch (const CLI::Success& success) {  // --help and --version.
    app.exit(success, console.out, console.err);
    return kExitAnswer;
  } catch (const CLI::ParseError& error) {
    if (launched_rank() > 0) return kExitBadInput;  // The first process says it.
    return complain(app, error, words, console);
  }
  for (const auto& [name, action] : actions) {
    if (app.got_subcommand(name)) return action();
  }
  return kExitBadInput;
}

}  // namespace

int run_command_line(const std::vector<std::string>& words, const World& world, Console& console) {
  try {
    // Of several processes the first answers; any may fail.
    std::ostream nowhere(nullptr);
    Console silent{.out = nowhere, .err = console.err};
    const int code = dispatch(words, world, launched_rank() > 0 ? silent : console);
    console.out.flush();
    if (!console.out) throw IoError("cannot write the answer: standard output is closed or full");
    return code;
  } catch (const IoError& error) {
    console.err << "megatwin: error: " << error.what() << "\n";
    return kExitMachine;
  } catch (const std::bad_alloc&) {
    console.err << "megatwin: error: this machine has not enough memory\n";
    return kExitMachine;
  }
}

}  // namespace megatwin::cli
