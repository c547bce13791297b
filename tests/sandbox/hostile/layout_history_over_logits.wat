;; expect: 1.15
;; role: sampler
;; layout: history=4096

