;; expect: 1.15
;; role: sampler
;; layout: log=130000

