# Completes the names of releases, which clap cannot list: tarpon release activate DIR NAME.
_tarpon_releases() {
    local word dir
    # The first argument of the command that is no option.
    for word in "${(@)words[2,CURRENT-1]}"; do
        if [[ $word != -* ]]; then
            dir=${(Q)word}
            break
        fi
    done
    [[ $dir == '~' || $dir == '~/'* ]] && dir=$HOME${dir[2,-1]}
    local -a names
    names=("${(@f)$(_call_program releases tarpon release list --names ${(q)dir} 2> /dev/null)}")
    compadd -V releases -a names
}

