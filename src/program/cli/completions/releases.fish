
# Completes the names of releases, which clap cannot list: tarpon release activate DIR NAME.
function __tarpon_activate_arguments
    set -l words (commandline -opc)
    string match --invert -- '-*' $words[4..-1]
end

complete -c tarpon -n "__fish_tarpon_using_subcommand release; and __fish_seen_subcommand_from activate; and test (count (__tarpon_activate_arguments)) -eq 1" -f -k -a "(tarpon release list --names (__tarpon_activate_arguments)[1] 2> /dev/null)"
